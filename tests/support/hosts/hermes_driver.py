"""Runs inside the real Hermes's Python: does what each line of standard input asks for, answers in JSON.

Nothing of safekept is imported here: what acts is the plugin that Hermes itself found in its home.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading


def tool(name, arguments, task="task", session="session", call="", turn="turn"):
    """One tool through the true way of dispatch."""
    import model_tools

    number = tool.count = getattr(tool, "count", 0) + 1
    answer = model_tools.handle_function_call(
        name,
        arguments,
        task_id=task,
        session_id=session,
        tool_call_id=call or f"call-{number}",
        turn_id=turn,
        api_request_id="request",
    )
    return answer if isinstance(answer, str) else str(answer)


def hook(name, **given):
    from hermes_cli.plugins import discover_plugins, invoke_hook

    discover_plugins()
    return invoke_hook(name, **given)


def command(name, arguments=""):
    """A slash command as the terminal and the TUI run it."""
    from hermes_cli.plugins import get_plugin_command_handler, resolve_plugin_command_result

    handler = get_plugin_command_handler(name)
    return None if handler is None else resolve_plugin_command_result(handler(arguments))


def loaded():
    from hermes_cli.plugins import discover_plugins, get_plugin_manager

    discover_plugins()
    plugins = get_plugin_manager()._plugins
    return {name: [one.enabled, one.error] for name, one in plugins.items() if "safekept" in name}


def hooks():
    from hermes_cli.plugins import discover_plugins, get_plugin_manager

    discover_plugins()
    manager = get_plugin_manager()
    return {name: len(found) for name, found in manager._hooks.items()}


def again():
    """Hermes looks for its plugins anew, as it does after a change of its settings."""
    from hermes_cli.plugins import discover_plugins

    discover_plugins(force=True)


def environment(**values):
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def enter(directory):
    os.chdir(directory)


def workspace(task, directory):
    """As the TUI and editors do for a conversation."""
    from tools.terminal_tool import register_task_env_overrides

    register_task_env_overrides(task, {"cwd": directory})


def turn(prompt, session="", platform="cli", history=None, keep=False):
    """A whole turn of the agent, as its faces run it; the model is at the configured address."""
    agent = turn.agents.get(session) if session else None
    if agent is None:
        agent = _agent(platform)
        if session:
            turn.agents[session] = agent
    result = agent.run_conversation(prompt, conversation_history=history or turn.history.get(session))
    if session:
        turn.history[session] = result.get("messages")
    return {"said": result.get("final_response"), "session": agent.session_id}


turn.agents, turn.history = {}, {}


def _agent(platform):
    from gateway.session_context import declare_stateless_channel
    from hermes_cli.config import load_config
    from hermes_state import SessionDB
    from run_agent import AIAgent

    declare_stateless_channel()  # as `-z` does: a subagent's answer comes within the turn
    model = load_config()["model"]
    return AIAgent(
        api_key=model["api_key"],
        base_url=model["base_url"],
        provider=model["provider"],
        model=model["default"],
        enabled_toolsets=["file", "terminal", "code_execution", "skills", "cronjob", "memory", "delegation"],
        quiet_mode=True,
        platform=platform,
        session_db=SessionDB(),
    )


def close(session):
    agent = turn.agents.pop(session, None)
    if agent is not None:
        agent.close()


def gateway(text, user="u1", busy=False):
    """One message as an adapter hands it to the gateway: its own handling from there on."""
    from gateway.config import Platform, load_gateway_config
    from gateway.platforms.base import MessageEvent
    from gateway.run import GatewayRunner
    from gateway.session import SessionSource

    async def handled():
        if gateway.runner is None:
            gateway.runner = GatewayRunner(load_gateway_config())
        runner = gateway.runner
        source = SessionSource(
            platform=Platform.TELEGRAM, chat_id="c1", chat_type="dm", user_id=user, user_name=user
        )
        key = runner._session_key_for_source(source)
        if busy:
            runner._running_agents[key] = object()
        try:
            return await runner._handle_message(MessageEvent(text=text, source=source, message_id="1"))
        finally:
            runner._running_agents.pop(key, None)

    answer = gateway.loop.run_until_complete(handled())
    return answer if answer is None else str(getattr(answer, "text", answer))


gateway.runner, gateway.loop = None, asyncio.new_event_loop()


def rewritten(event):
    """What the hook of gateways answers, for a gateway that knows nothing."""
    import types

    from hermes_cli.plugins import discover_plugins, invoke_hook

    discover_plugins()
    event = types.SimpleNamespace(source=None, **event)
    return invoke_hook("pre_gateway_dispatch", event=event, gateway=None, session_store=None)


def messages(session):
    """How many messages Hermes itself finds in its database, opened anew."""
    from hermes_state import SessionDB

    database = SessionDB()
    try:
        return len(database.get_messages(turn.agents[session].session_id))
    finally:
        database.close()


def modules(prefix):
    return sorted(name for name in sys.modules if name.startswith(prefix))


def together(calls):
    """Several tools at the same moment, each in a thread of its own."""
    answers = [None] * len(calls)

    def one(number, words):
        answers[number] = tool(*words, session=f"s{number}", call=f"t{number}")

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def main():
    from hermes_logging import setup_logging

    setup_logging()  # as every face of Hermes does: warnings go to its files, not to a terminal
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints goes to standard error
    for line in sys.stdin:
        verb, words, given = json.loads(line)
        try:
            answer = {"answer": globals()[verb](*words, **given)}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
