"""Objects on another machine, over SFTP."""

#: What OpenSSH's `internal-sftp -P` has to refuse so that an account can add and nothing else.
ADD_ONLY = "remove,rmdir,rename,posix-rename,setstat,fsetstat,lsetstat,symlink"
