// Sends OpenCode's model the view of jp-compact. Name the file in `plugin` of opencode.json, or put it into
// ~/.config/opencode/plugin.
//
// OpenCode gives every request's messages to `experimental.chat.messages.transform`. If they are too large, one process of
// jp-compact shortens old results and arguments. The result is stored by call id in a file for each session, and put into
// each later request, so the beginning of a request stays the same. OpenCode's own messages never change.
//
// This plugin must never throw. On any failure, the messages stay unchanged, and OpenCode's own compaction runs when
// necessary.

import { spawn } from 'node:child_process'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

type Part = { type: string; callID?: string; text?: string; state?: { status: string; output?: string; input?: unknown } }
type Message = { info: { id: string; role: string; sessionID: string }; parts: Part[] }
/** The output and the input of calls, by the id of the call. */
type Changes = Record<string, { output?: string; input?: unknown }>

const EXECUTABLE = process.env.JP_COMPACT ?? 'jp-compact'
const PROFILE = process.env.JP_COMPACT_PROFILE ?? 'agent'
/** Messages with fewer tokens stay as they are. */
const THRESHOLD = Number(process.env.JP_COMPACT_THRESHOLD ?? 100_000)
const LIMIT_MS = 20_000
const MINIMUM_SAVING = 20
const FOLDER = join(process.env.XDG_STATE_HOME ?? join(homedir(), '.local/state'), 'jp-compact/opencode')

function run(words: string[], input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(EXECUTABLE, words, { stdio: ['pipe', 'pipe', 'pipe'], timeout: LIMIT_MS })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', data => (stdout += data))
    child.stderr.setEncoding('utf8').on('data', data => (stderr += data))
    child.on('error', reject)
    child.stdin.on('error', reject)
    child.on('close', () => (stdout === '' ? reject(new Error(stderr.trim() || 'no answer')) : resolve(stdout)))
    child.stdin.end(input)
  })
}

/** Runs jp-compact on messages. Returns the messages of the view if it saves at least MINIMUM_SAVING percent. */
async function view(messages: Message[], sessionID: string, words: string[]): Promise<Message[] | undefined> {
  const record = { id: sessionID, format: 'opencode', transcript: { info: { id: sessionID }, messages } }
  const answer = JSON.parse(await run(['--quiet', 'batch', '--ndjson', '--view', ...words], `${JSON.stringify(record)}\n`))
  if (!answer.ok) {
    throw new Error(answer.error?.message)
  }
  const { view_before: before, view_after: after } = answer.tokens
  return after <= before * (1 - MINIMUM_SAVING / 100) ? answer.view.messages : undefined
}

function changesBetween(before: Message[], after: Message[]): Changes {
  const changes: Changes = {}
  const views = new Map(after.flatMap(message => message.parts).map(part => [part.callID, part.state]))
  for (const { callID, state } of before.flatMap(message => message.parts)) {
    const seen = views.get(callID)
    if (callID === undefined || state === undefined || seen === undefined) {
      continue
    }
    const change = {
      ...(seen.output !== state.output && { output: seen.output }),
      ...(JSON.stringify(seen.input) !== JSON.stringify(state.input) && { input: seen.input }),
    }
    if (Object.keys(change).length > 0) {
      changes[callID] = change
    }
  }
  return changes
}

/** Replaces parts in place. OpenCode reads the same list after the event. */
function apply(messages: Message[], changes: Changes) {
  for (const message of messages) {
    message.parts.forEach((part, at) => {
      const change = part.callID === undefined ? undefined : changes[part.callID]
      if (change !== undefined && part.state !== undefined) {
        message.parts[at] = { ...part, state: { ...part.state, ...change } }
      }
    })
  }
}

async function load(sessionID: string): Promise<Changes> {
  return JSON.parse(await readFile(join(FOLDER, `${sessionID}.json`), 'utf8').catch(() => '{}'))
}

async function store(sessionID: string, changes: Changes) {
  await mkdir(FOLDER, { recursive: true, mode: 0o700 })
  const path = join(FOLDER, `${sessionID}.json`)
  await writeFile(`${path}.new`, JSON.stringify(changes), { mode: 0o600 })
  await rename(`${path}.new`, path)
}

export const JpCompact = async () => ({
  'experimental.chat.messages.transform': async (_: unknown, output: { messages: Message[] }) => {
    const sessionID = output.messages[0]?.info.sessionID
    if (sessionID === undefined || !/^[A-Za-z0-9_-]+$/.test(sessionID)) {
      return
    }
    try {
      const changes = await load(sessionID)
      apply(output.messages, changes)
      // About three characters of JSON for each token.
      if (JSON.stringify(output.messages).length < 3 * THRESHOLD) {
        return
      }
      const after = await view(output.messages, sessionID, ['--profile', PROFILE])
      if (after !== undefined) {
        const more = changesBetween(output.messages, after)
        await store(sessionID, { ...changes, ...more })
        apply(output.messages, more)
      }
    } catch (error) {
      console.error(`jp-compact: ${error instanceof Error ? error.message : error}`)
    }
  },
})
