import { isUtf8 } from "node:buffer";
import { QueueClosedError } from "#collector/queue/errors.ts";
import type { NewRecord } from "#collector/queue/record.ts";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import type { SourceDependencies } from "../source.ts";
import type { Frame } from "./framing.ts";
import { parseMessage, type SyslogFormat } from "./parse-message.ts";

/** Stores the messages of all senders of a source. */
export type Storing = ReturnType<typeof createStoring>;

const kind = "log_line";
/** The most memory of messages that wait for the queue. */
const waitingBytesMax = 16 * 1024 * 1024;
/** The memory that a record takes besides its text. */
const recordBytes = 512;
const retryMs = 1_000;

/** Creates it for the source `name`. Whatever waits when `signal` aborts is counted as refused. */
export const createStoring = (
  name: string,
  format: SyslogFormat,
  { append, refused, clock, log }: SourceDependencies,
  signal: AbortSignal,
) => {
  const fault = createReportedFault("source_failed", clock, `${name}: `);
  const counts = {
    messages: 0,
    dropped: 0,
    refused: 0,
    unparsed: 0,
    partial: 0,
    invalid_characters: 0,
  };
  let waitingBytes = 0;
  let room = Promise.withResolvers<void>();

  const recordOf = (frame: Frame, sender: Readonly<Record<string, string>>): NewRecord => {
    const sent = withoutEnd(frame.bytes).toString();
    if (!isUtf8(frame.bytes)) counts.invalid_characters += sent.split("\ufffd").length - 1;
    const parsed = frame.isContinued ? undefined : parseMessage(sent, format, clock.now());
    if (parsed === undefined) counts.unparsed += 1;
    if (frame.isPartial) counts.partial += 1;
    return {
      kind,
      observedAtMs: clock.now(),
      source: name,
      attributes: {
        ...sender,
        ...parsed?.attributes,
        ...(frame.isPartial && { "syslog.partial": "true" }),
      },
      payload: Buffer.from(parsed?.text ?? sent),
    };
  };
  const refuse = (reason: SourceRefusal, records: number) => {
    counts.refused += records;
    refused(reason, { kind, source: name, records });
  };
  /** Repeats until the queue has them, or nobody waits for that any more. */
  const appendAll = async (records: readonly NewRecord[]) => {
    for (;;) {
      try {
        const outcome = await append(records, { signal });
        counts[outcome === "stored" ? "messages" : "dropped"] += records.length;
        return fault.succeeded();
      } catch (error) {
        if (signal.aborted || error instanceof QueueClosedError)
          return refuse("queue_full", records.length);
        fault.failed(error);
        log.error({ err: error, source: name }, "messages could not be stored; retrying");
        await clock.sleep(retryMs, signal).catch(() => undefined);
      }
    }
  };

  return {
    refuse,
    hasRoom: () => waitingBytes < waitingBytesMax,
    /** Resolves once there is room for more messages. */
    whenRoom: async () => {
      while (waitingBytes >= waitingBytesMax) await room.promise;
    },
    /** Resolves once the messages of a sender are stored, or counted. */
    store: async (frames: readonly Frame[], sender: Readonly<Record<string, string>>) => {
      if (frames.length === 0) return;
      const bytes = frames.reduce((sum, frame) => sum + frame.bytes.length + recordBytes, 0);
      waitingBytes += bytes;
      try {
        await appendAll(frames.map((frame) => recordOf(frame, sender)));
      } finally {
        waitingBytes -= bytes;
        room.resolve();
        room = Promise.withResolvers();
      }
    },
    counts: () => counts,
    condition: fault.condition,
  };
};

const ends: readonly (number | undefined)[] = [0x00, 0x0a, 0x0d];

/** Returns a message without the line ends and NULs after it. */
const withoutEnd = (bytes: Buffer): Buffer => {
  let { length } = bytes;
  while (ends.includes(bytes[length - 1])) length -= 1;
  return bytes.subarray(0, length);
};
