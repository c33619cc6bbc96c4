import { createHash } from "node:crypto";
import { hrtime } from "node:process";
import type { Entropy } from "../../kit/entropy.ts";
import type { QueueState } from "./format.ts";

/** What the collector states when it opens the queue in core (docs/protocol.md, "Fencing"). */
export interface QueueSession {
  readonly queueId: Uint8Array<ArrayBuffer>;
  readonly sessionId: Uint8Array<ArrayBuffer>;
  /** Oldest first. */
  readonly previousSessionIds: readonly Uint8Array<ArrayBuffer>[];
  /** Everything at or below it was acknowledged under this queue id, and is deleted. */
  readonly ackedThrough: number;
  /** The highest sequence that can have been sent under this queue id. */
  readonly sentThrough: number;
}

const idBytes = 16;
/** Of a queue's history, with the current session. */
const sessionsMax = 16;

/**
 * Draws the id of a session. A machine that was cloned with its memory has a clone's random numbers too, until the kernel draws new
 * ones: the time in nanoseconds makes the ids differ.
 */
export const drawSessionId = (entropy: Entropy): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(
    createHash("sha256").update(entropy.bytes(32)).update(`${Date.now()} ${hrtime.bigint()}`).digest(),
  ).slice(0, idBytes);

/** Adds a session to the history of a queue; the oldest leaves it, but never the last one that core has answered. */
export const addSession = (
  { sessions, answeredSession }: Pick<QueueState, "sessions" | "answeredSession">,
  sessionId: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> => {
  const ids = [...idsOf(sessions), sessionId];
  const answered = answeredSession.toHex();
  while (ids.length > sessionsMax) ids.splice(ids[0]?.toHex() === answered ? 1 : 0, 1);
  return Uint8Array.from(Buffer.concat(ids));
};

/** Returns the newest session of a history; undefined when it is empty. */
export const newestSession = (sessions: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> | undefined =>
  idsOf(sessions).at(-1);

/** Returns all sessions of a history but the newest, oldest first. */
export const previousSessions = (sessions: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] =>
  idsOf(sessions).slice(0, -1);

const idsOf = (sessions: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] =>
  Array.from({ length: Math.floor(sessions.length / idBytes) }, (_, index) =>
    sessions.slice(index * idBytes, (index + 1) * idBytes),
  );
