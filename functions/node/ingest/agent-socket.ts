/**
 * One WebSocket of an agent. Invariants:
 * - Its messages are processed one after the other; meanwhile core reads no more of it.
 * - What it holds beyond `heldBytes` is in the budget of frames. A client that leaves too much unread loses its socket.
 * - A client that is silent is pinged; one that does not answer has vanished.
 */
import { WebSocket } from "ws";
import type { EnteredAgent, IngestRoutes } from "#functions/ingest/service.ts";
import { refusalMessage } from "#functions/opamp/agent-message.ts";
import type { AgentSession } from "#functions/opamp/agent-session.ts";
import { Problem } from "#functions/problems.ts";
import { equalBytes } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";

/** What a socket needs. */
interface SocketNeeds {
  ws: WebSocket;
  session: AgentSession;
  entered: EnteredAgent;
  /** Takes the turn of a control frame. */
  takeTurn(): boolean;
  /** Counts a message that core could not read; the connection ends if there were too many. */
  countFault(): void;
  clock: Clock;
  /** How often an agent must be seen. */
  intervalMs: number;
  reserve: IngestRoutes["reserve"];
  onFailure(cause: unknown): void;
}

/** Another socket of the same identity, opened later. */
interface Newcomer {
  isOpen(): boolean;
  uid(): Uint8Array | undefined;
  reassign(): void;
}

/** An open WebSocket of an agent. */
export type AgentSocket = ReturnType<typeof createAgentSocket>;

/** Bytes of a socket that are not in the budget. */
const heldBytes = 4 * 1024;
/** A client that leaves more unread ends its socket. */
const unreadBytesMax = 64 * 1024;
/** A socket is pinged when it was silent for so many checks, and ends when it was silent for twice as many. */
const silentChecks = 2;
/** A message that is incomplete in so many checks arrives too slowly. */
const incompleteChecksMax = 4;
/** The time in which a client answers a ping, if it still exists. */
const pingTimeoutMs = 5_000;
/** Bytes of a control frame beside its data. */
const controlFrameBytes = 6;

/** The codes with which core closes a socket (RFC 6455, section 7.4.1). */
const closeCodes = { goingAway: 1001, notBinary: 1003, policy: 1008, tryAgain: 1013 };

/** Starts to serve an open WebSocket. */
export const createAgentSocket = (needs: SocketNeeds) => {
  const { ws, session, entered, clock } = needs;
  const { stream, reception } = entered;
  const outgoing = createOutgoing(needs, () => end(new Problem("overloaded")));
  let isEnding = false;
  let isHeard = true;
  let silentFor = 0;
  let seenAt = clock.monotonic();

  const end = (problem: Problem, code = closeCodeOf(problem)) => {
    if (isEnding) return;
    isEnding = true;
    outgoing.send(refusalMessage(problem));
    ws.close(code, problem.code);
    // A paused socket would not receive the client's half of the handshake.
    ws.resume();
  };
  const incoming = createIncoming(reception, end);
  const tasks = createTasks(ws);

  const answer = (data: Buffer): void => {
    // Other headers are reserved.
    const reply = session.receive(data[0] === 0 ? data.subarray(1) : new Uint8Array());
    if (reply instanceof Promise) {
      incoming.process(data.length);
      tasks.hold(reply.then(finish).finally(() => incoming.process(0)));
    } else finish(reply);
  };
  const finish = ({ answer: message, fault }: Awaited<ReturnType<AgentSession["receive"]>>) => {
    outgoing.send(message);
    if (fault?.code === "agent_message_invalid") needs.countFault();
  };
  const offer = async (isDirected: boolean): Promise<void> => {
    if (isEnding) return;
    seenAt = clock.monotonic();
    const message = await session.offer(isDirected).catch(needs.onFailure);
    if (message) outgoing.send(message);
  };
  const offerInTurn = (isDirected: boolean) => tasks.run(() => tasks.hold(offer(isDirected)));

  ws.on("error", () => undefined);
  ws.on("message", (data: Buffer, isBinary) => {
    isHeard = true;
    incoming.complete();
    if (isEnding) return;
    if (isBinary) tasks.run(() => answer(data));
    else end(new Problem("agent_message_invalid", { detail: "not binary" }), closeCodes.notBinary);
  });
  const control = (data: Buffer) => {
    isHeard = true;
    incoming.control(data.length + controlFrameBytes);
    if (!needs.takeTurn()) end(new Problem("rate_limited"));
  };
  ws.on("ping", control);
  ws.on("pong", control);
  stream.signal.addEventListener("abort", () => end(stream.signal.reason as Problem));
  if (stream.signal.aborted) end(stream.signal.reason as Problem);

  return {
    incoming,
    /** Counts a heartbeat, and sends what core has for the agent. */
    direct: () => offerInTurn(true),
    check() {
      silentFor = isHeard ? 0 : silentFor + 1;
      if (silentFor === silentChecks) ws.ping();
      else if (silentFor >= 2 * silentChecks) return ws.terminate();
      if (incoming.isSlow()) return end(new Problem("body_timeout"));
      if (isHeard && clock.monotonic() - seenAt >= needs.intervalMs) offerInTurn(false);
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
      if (message) outgoing.send(message);
    },
    uid: session.uid,
    isOpen: () => ws.readyState === WebSocket.OPEN,
  };
};

const closeCodeOf = ({ code, kind }: Problem): number => {
  if (code === "shutting_down") return closeCodes.goingAway;
  return kind === "unavailable" || kind === "throttled" ? closeCodes.tryAgain : closeCodes.policy;
};

/** Runs what a socket has to do, one after the other. Reads no more of the socket while something takes time. */
const createTasks = (ws: WebSocket) => {
  const waiting: (() => void)[] = [];
  let isHeld = false;
  const release = () => {
    isHeld = false;
    for (let next = waiting.shift(); next; next = isHeld ? undefined : waiting.shift()) next();
    if (!isHeld) ws.resume();
  };
  return {
    /** Runs a task now, or after those before it. */
    run(task: () => void) {
      if (isHeld) waiting.push(task);
      else task();
    },
    /** Lets the next tasks wait until `done` has settled. Called by a task. */
    hold(done: Promise<unknown>) {
      isHeld = true;
      ws.pause();
      done.then(release, release);
    },
  };
};

/** Counts the bytes that a socket has received and not yet processed. */
const createIncoming = ({ hold }: EnteredAgent["reception"], end: (problem: Problem) => void) => {
  let incomplete = 0;
  let inProcess = 0;
  let hasCompleted = false;
  let incompleteChecks = 0;
  let held = 0;
  const reserve = () => {
    const sum = incomplete + inProcess;
    const bytes = sum > heldBytes ? sum : 0;
    if (bytes === held) return;
    held = bytes;
    try {
      hold(bytes, false);
    } catch (error) {
      end(error as Problem);
    }
  };
  return {
    /** A chunk has arrived and was parsed. */
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
    /** Reports, at each check, whether a message is incomplete for too long. */
    isSlow() {
      incompleteChecks = incomplete > 0 ? incompleteChecks + 1 : 0;
      return incompleteChecks > incompleteChecksMax;
    },
  };
};

/** Sends messages while the client reads them. */
const createOutgoing = ({ ws, reserve }: SocketNeeds, refuse: () => void) => ({
  send(message: Uint8Array) {
    if (ws.readyState !== WebSocket.OPEN) return;
    if (ws.bufferedAmount > unreadBytesMax) return ws.terminate();
    // The header, 0, and the message.
    const framed = new Uint8Array(message.length + 1);
    framed.set(message, 1);
    if (framed.length <= heldBytes) return ws.send(framed);
    const release = reserve(framed.length);
    if (release === null) refuse();
    else ws.send(framed, release);
  },
});
