/**
 * One WebSocket of an agent. Invariants:
 * - Its messages are processed one after the other; meanwhile core reads no more of it. Nor does it while the client leaves more than
 *   `heldBytes` unread, or sends more messages than it may.
 * - What it holds beyond `heldBytes`, received or unread, is in the budget of incomplete messages.
 * - A client that is silent is pinged; one that does not answer has vanished, and so has one that does not read.
 */
import { WebSocket } from "ws";
import type { EnteredAgent } from "#functions/ingest/service.ts";
import { refusalMessage } from "#functions/opamp/agent-message.ts";
import { type AgentSession, agentTurns } from "#functions/opamp/agent-session.ts";
import { Problem } from "#functions/problems.ts";
import { equalBytes } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import type { TokenBuckets } from "#kit/token-buckets.ts";
import type { Connection } from "./ingest-connections.ts";

/** The needs that all sockets share. */
export interface SharedBySockets {
  turns: Pick<TokenBuckets, "take">;
  clock: Clock;
  /** How often an agent must be seen. */
  intervalMs: number;
  onFailure(cause: unknown): void;
}

/** What a socket needs. */
interface SocketNeeds {
  ws: WebSocket;
  session: AgentSession;
  entered: EnteredAgent;
  connection: Pick<Connection, "reject" | "end">;
}

/** Another socket of the same identity, opened later. */
interface Newcomer {
  isOpen(): boolean;
  uid(): Uint8Array | undefined;
  reassign(): void;
}

/** An open WebSocket of an agent. */
export type AgentSocket = ReturnType<typeof createAgentSocket>;

/** Bytes of a socket, received or unread, that are not in the budget. */
const heldBytes = 4 * 1024;
/** Messages that may have arrived while the one before them is processed: as many as an identity may send at once. */
const waitingMax = agentTurns.burst;
/** For how long core reads no more of an identity that has sent too many. */
const tooManyPauseMs = 1_000;
/** A client that has left something unread in so many checks does not read. */
const unreadChecksMax = 3;
/** A socket is pinged when it was silent for so many checks, and ends when it was silent for twice as many. */
const silentChecks = 2;
/** The most fragments of a message: some clients send 4 KiB in each, and their TLS records of little more than 1 KiB at first. */
export const fragmentsMax = 160;
/** A message that is incomplete in so many checks arrives too slowly. */
const incompleteChecksMax = 4;
/** The time in which a client answers a ping, if it still exists. */
const pingTimeoutMs = 5_000;
/** Bytes of a control frame beside its data. */
const controlFrameBytes = 6;

/** The codes with which core closes a socket (RFC 6455, section 7.4.1). */
const closeCodes = { goingAway: 1001, notBinary: 1003, policy: 1008, tryAgain: 1013 };

/** Starts to serve an open WebSocket. */
export const createAgentSocket = (
  { clock, turns, intervalMs, onFailure }: SharedBySockets,
  { ws, session, entered: { caller, stream, bytes }, connection }: SocketNeeds,
) => {
  let isEnding = false;
  let isHeard = true;
  let silentFor = 0;
  let unreadFor = 0;
  let seenAt = clock.monotonic();

  const end = (problem: Problem, code = closeCodeOf(problem)) => {
    if (isEnding) return;
    isEnding = true;
    send(refusalMessage(problem));
    ws.close(code, problem.code);
    // A paused socket would not receive the client's half of the handshake.
    ws.resume();
  };
  let isDeaf = false;
  /** Ends a socket of which core reads no more, not even the client's half of the handshake: to parse what has arrived costs more than it. */
  const endUnread = (problem: Problem) => {
    end(problem);
    isDeaf = true;
    tasks.hold(never);
  };
  const held = countHeld(bytes, end);
  const countFragments = createFragmentCount();
  const tasks = createTasks(ws, () => end(new Problem("rate_limited")));
  const send = createSend(ws, held, tasks);

  const answer = (data: Buffer): void => {
    if (isEnding) return;
    // Other headers are reserved.
    const reply = session.receive(data[0] === 0 ? data.subarray(1) : new Uint8Array());
    if (reply instanceof Promise) {
      held.process(data.length);
      tasks.hold(reply.then(finish).finally(() => held.process(0)));
    } else finish(reply);
  };
  const finish = ({ answer: message, fault }: Awaited<ReturnType<AgentSession["receive"]>>) => {
    send(message);
    if (fault?.code === "agent_message_invalid") connection.reject();
    if (fault?.code === "rate_limited") tasks.hold(clock.sleep(tooManyPauseMs));
  };
  const offer = async (isDirected: boolean): Promise<void> => {
    if (isEnding) return;
    seenAt = clock.monotonic();
    const message = await session.offer(isDirected).catch(onFailure);
    if (message) send(message);
  };
  const offerInTurn = (isDirected: boolean) => tasks.run(() => tasks.hold(offer(isDirected)));

  ws.on("error", () => undefined);
  ws.on("message", (data: Buffer, isBinary) => {
    isHeard = true;
    held.complete();
    if (isEnding) return;
    if (isBinary) tasks.run(() => answer(data));
    else end(new Problem("agent_message_invalid", { detail: "not binary" }), closeCodes.notBinary);
  });
  const control = (data: Buffer) => {
    isHeard = true;
    held.control(data.length + controlFrameBytes);
    if (!isEnding && !turns.take(caller.identity)) endUnread(new Problem("rate_limited"));
  };
  ws.on("ping", control);
  ws.on("pong", control);
  stream.signal.addEventListener("abort", () => end(stream.signal.reason as Problem));
  if (stream.signal.aborted) end(stream.signal.reason as Problem);

  return {
    /** A chunk has arrived and was parsed. Returns false if core reads no more. */
    received(chunk: Uint8Array): boolean {
      held.receive(chunk.length);
      if (!isEnding && countFragments(chunk) > fragmentsMax)
        endUnread(new Problem("payload_too_large"));
      return !isDeaf;
    },
    /** Counts a heartbeat, and sends what core has for the agent. */
    direct: () => offerInTurn(true),
    check() {
      silentFor = isHeard ? 0 : silentFor + 1;
      if (silentFor === silentChecks) ws.ping();
      else if (silentFor >= 2 * silentChecks) return ws.terminate();
      unreadFor = ws.bufferedAmount > 0 ? unreadFor + 1 : 0;
      if (unreadFor === unreadChecksMax) {
        isEnding = true;
        return connection.end("reads no answers");
      }
      if (held.isSlow()) return end(new Problem("body_timeout"));
      if (isHeard && clock.monotonic() - seenAt >= intervalMs) offerInTurn(false);
      isHeard = false;
    },
    /** Finds whether two agents use one identity: this one still answers while `newcomer` is connected. */
    async findClone(newcomer: Newcomer): Promise<void> {
      isHeard = false;
      ws.ping();
      await clock.sleep(pingTimeoutMs);
      if (isEnding || ws.readyState !== WebSocket.OPEN || !newcomer.isOpen()) return;
      if (!isHeard) return ws.terminate();
      await session.cloneSuspected("two agents are connected with one certificate");
      const uid = session.uid();
      const other = newcomer.uid();
      if (uid && other && equalBytes(uid, other)) newcomer.reassign();
    },
    reassign() {
      const message = session.reassign();
      if (message) send(message);
    },
    uid: session.uid,
    isOpen: () => ws.readyState === WebSocket.OPEN,
  };
};

const never = new Promise<never>(() => undefined);

/**
 * Creates the function that takes chunks of a socket and returns the most fragments that a message has in one (RFC 6455, section 5.2):
 * `ws` does not count those that are empty, and takes a microsecond for each.
 */
const createFragmentCount = () => {
  const header = new DataView(new ArrayBuffer(14));
  let headerBytes = 2;
  let read = 0;
  let payload = 0;
  let fragments = 0;
  const endHeader = () => {
    const first = header.getUint8(0);
    const length = header.getUint8(1) & 0x7f;
    if (length < 126) payload = length;
    else payload = length === 126 ? header.getUint16(2) : Number(header.getBigUint64(2));
    // Control frames may stand between fragments.
    if ((first & 0x08) === 0) fragments = first & 0x80 ? 0 : fragments + 1;
    headerBytes = 2;
    read = 0;
  };
  return (chunk: Uint8Array): number => {
    let most = fragments;
    for (let at = 0; at < chunk.length; ) {
      if (payload > 0) {
        const part = Math.min(payload, chunk.length - at);
        payload -= part;
        at += part;
        continue;
      }
      const byte = chunk[at++] ?? 0;
      header.setUint8(read++, byte);
      // A client masks each frame.
      if (read === 2) headerBytes = 6 + ({ 126: 2, 127: 8 }[byte & 0x7f] ?? 0);
      if (read !== headerBytes) continue;
      endHeader();
      most = Math.max(most, fragments);
    }
    return most;
  };
};

const closeCodeOf = ({ code, kind }: Problem): number => {
  if (code === "shutting_down") return closeCodes.goingAway;
  return kind === "unavailable" || kind === "throttled" ? closeCodes.tryAgain : closeCodes.policy;
};

/**
 * Runs what a socket has to do, one after the other. Reads no more of the socket while something takes time. `refuse` ends a socket for which too
 * much waits.
 */
const createTasks = (ws: WebSocket, refuse: () => void) => {
  const waiting: (() => void)[] = [];
  let holds = 0;
  const release = () => {
    holds -= 1;
    while (holds === 0 && waiting.length > 0) waiting.shift()?.();
    if (holds === 0) ws.resume();
  };
  return {
    /** Runs a task now, or after those before it. */
    run(task: () => void) {
      if (holds === 0) task();
      else if (waiting.push(task) > waitingMax) refuse();
    },
    /** Lets the next tasks wait until `done` has settled. */
    hold(done: Promise<unknown>) {
      holds += 1;
      ws.pause();
      done.then(release, release);
    },
  };
};

/** Counts the bytes that core holds for a socket: received and not yet processed, and sent and not yet read. */
const countHeld = ({ set }: EnteredAgent["bytes"], end: (problem: Problem) => void) => {
  let incomplete = 0;
  let inProcess = 0;
  let unread = 0;
  let hasCompleted = false;
  let incompleteChecks = 0;
  let held = 0;
  /** Returns whether they fit. */
  const reserve = (): boolean => {
    const sum = incomplete + inProcess + unread;
    const bytes = sum > heldBytes ? sum : 0;
    if (bytes === held) return true;
    try {
      set(bytes);
      held = bytes;
      return true;
    } catch (error) {
      end(error as Problem);
      return false;
    }
  };
  return {
    receive(bytes: number) {
      // What follows a message in its chunk is less than a chunk.
      incomplete = hasCompleted ? 0 : Math.max(0, incomplete + bytes);
      hasCompleted = false;
      reserve();
    },
    complete() {
      hasCompleted = true;
    },
    control(bytes: number) {
      incomplete -= bytes;
    },
    process(bytes: number) {
      inProcess = bytes;
      reserve();
    },
    /** Adds bytes that the client has not read; negative ones it has. Returns whether they fit. */
    addUnread(bytes: number): boolean {
      unread += bytes;
      const fits = reserve();
      if (!fits) unread -= bytes;
      return fits;
    },
    /** Reports, at each check, whether a message is incomplete for too long. */
    isSlow() {
      incompleteChecks = incomplete > 0 ? incompleteChecks + 1 : 0;
      return incompleteChecks > incompleteChecksMax;
    },
  };
};

/** Creates the function that sends a message. A client that leaves much unread is not read until it has read it. */
const createSend =
  (ws: WebSocket, held: ReturnType<typeof countHeld>, tasks: ReturnType<typeof createTasks>) =>
  (message: Uint8Array): void => {
    if (ws.readyState !== WebSocket.OPEN) return;
    // The header, 0, and the message.
    const framed = new Uint8Array(message.length + 1);
    framed.set(message, 1);
    if (ws.bufferedAmount + framed.length <= heldBytes) {
      ws.send(framed);
      return;
    }
    // Until they are sent, TLS has them in a second, encrypted form.
    const bytes = 2 * framed.length;
    if (!held.addUnread(bytes)) return;
    const sent = new Promise<void>((resolve) => {
      ws.send(framed, () => resolve(void held.addUnread(-bytes)));
    });
    tasks.hold(sent);
  };
