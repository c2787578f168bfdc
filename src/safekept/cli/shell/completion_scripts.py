"""The scripts that make a shell ask us what may come next. Each says at its top how it is installed."""

from __future__ import annotations

BASH = r"""# Completion of safekept for bash. Put this line into ~/.bashrc:
#     source <(safekept completion bash)
_safekept() {
    local -a words=()
    local word line last=-1 i
    COMPREPLY=()
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        # bash takes `--dir=x` for three words
        if ((last >= 0)) && [[ $word == "=" || ${words[last]} == --*= ]]; then
            words[last]+=$word
        else
            words+=("$word")
            ((last += 1))
        fi
    done
    while IFS= read -r line; do
        if [[ ${line%%$'\t'*} ]]; then
            COMPREPLY+=("${line%%$'\t'*}")
            continue
        fi
        case ${line#*$'\t'} in
            files) compopt -o default 2>/dev/null ;;
            directories) compopt -o dirnames 2>/dev/null ;;
            commands)
                while IFS= read -r word; do
                    COMPREPLY+=("$word")
                done < <(compgen -c -- "${words[last]}")
                ;;
        esac
    done < <("$1" completion bash --words -- "${words[@]}" 2>/dev/null)
}
complete -o nosort -F _safekept safekept 2>/dev/null || complete -F _safekept safekept
"""

ZSH = r"""#compdef safekept
# Completion of safekept for zsh. Put this line into ~/.zshrc, after `compinit`:
#     source <(safekept completion zsh)
# or write it to a file called _safekept in a directory of $fpath.
_safekept() {
    local line task=''
    local -a found asked
    asked=("${(@Q)words[2,CURRENT]}")
    [[ $PREFIX == --*=* ]] && compset -P '*='
    while IFS= read -r line; do
        if [[ -n ${line%%$'\t'*} ]]; then
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            task=${line#*$'\t'}
        fi
    done < <("${(Q)words[1]}" completion zsh --words -- "${asked[@]}" 2>/dev/null)
    (( $#found )) && _describe -V safekept found
    case $task in
        files) _files ;;
        directories) _files -/ ;;
        commands) _command_names -e ;;
    esac
}
if [[ $funcstack[1] == _safekept ]]; then
    _safekept "$@"
else
    compdef _safekept safekept
fi
"""

FISH = r"""# Completion of safekept for fish. Run this once:
#     safekept completion fish > ~/.config/fish/completions/safekept.fish
function __safekept_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program completion fish --words -- $words "$current" 2>/dev/null)
        switch $line
            case \tfiles
                __fish_complete_path "$current"
            case \tdirectories
                __fish_complete_directories "$current" ''
            case \tcommands
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c safekept -f -k -a '(__safekept_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
