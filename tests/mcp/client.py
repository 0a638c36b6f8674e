"""An MCP client that uses the official Python SDK.

Starts the server that the arguments name, and prints one line of JSON with its tools. Then makes the calls that stdin
lists, one `[tool, arguments]` per line, and prints the result of each.

Usage: client.py auto|legacy SERVER [ARGUMENT]..."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main(mode: str, server: str, arguments: list[str]) -> None:
    parameters = StdioServerParameters(command=server, args=arguments, env=dict(os.environ))
    async with Client(parameters, mode=mode) as client:
        tools = await client.list_tools()
        write({"protocol": client.protocol_version, "tools": [tool.name for tool in tools.tools]})
        for line in sys.stdin:
            tool, tool_arguments = json.loads(line)
            result = await client.call_tool(tool, tool_arguments)
            write(
                {
                    "failed": result.is_error,
                    "text": "".join(block.text for block in result.content),
                    "structured": result.structured_content,
                }
            )


def write(line: object) -> None:
    print(json.dumps(line), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
