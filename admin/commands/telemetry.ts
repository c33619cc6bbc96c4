import * as v from "valibot";
import type { FleetClient } from "#client/connect.ts";
import { type ReadHostEnvelopesData, readHostEnvelopes } from "#client/index.ts";
import { FleetError, problemOf } from "#client/problem.ts";
import { minuteMs } from "#kit/clock.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import { DamagedBlockLine, EnvelopeLine } from "#proto/telemetry/line.ts";
import { connect } from "../terminal/connect.ts";

import { exitCodes } from "../terminal/exit-codes.ts";
import { jsonLine, type telemetryFormats, withoutControls } from "../terminal/output.ts";
import { type Instant, textOfInstant } from "../terminal/parse-option.ts";
import { repeat } from "../terminal/repeat.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action } from "./command.ts";
import { resolveId } from "./names.ts";

interface TelemetryOptions {
  from?: Instant;
  to?: Instant;
  kind?: string;
  grep?: string;
  limit?: number;
  follow?: boolean;
  format: (typeof telemetryFormats)[number];
}

type Query = NonNullable<ReadHostEnvelopesData["query"]>;
type Line = EnvelopeLine | DamagedBlockLine;

const Line = v.pipe(v.string(), v.parseJson(), v.union([EnvelopeLine, DamagedBlockLine]));

/** `svc-admin telemetry read`: the newest lines of a host, or those of a range; with `--follow` also what it sends from now on. */
export const readTelemetryAction: Action<TelemetryOptions> = async (
  terminal,
  { follow = false, format, ...options },
  name = "",
) => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "host", name);
  const write =
    format === "otlp" ? (await import("../terminal/otlp-lines.ts")).otlpLineOf : writers[format];
  const query: Query = withoutUndefined({
    from: textOfInstant(options.from),
    to: textOfInstant(options.to),
    kind: options.kind,
    grep: options.grep,
    limit: options.limit,
    follow: follow ? ("true" as const) : undefined,
  });
  const counts = { read: 0, lost: 0 };
  const reportLost = (message: string) => {
    counts.lost++;
    terminal.err.write(`svc-admin: ${message}\n`);
  };
  const print = (line: Line) => {
    counts.read++;
    if ("damaged_block" in line) {
      reportLost(describeDamage(line));
      return;
    }
    const text = write(line);
    if (text === undefined) reportLost(describeUndecodable(line));
    else terminal.out.write(text);
  };
  if (follow) await followLines(terminal, { client, id, query, print });
  else for await (const line of linesOf(client, id, query)) print(line);
  if (counts.read === 0)
    terminal.err.write("No telemetry of this host was received in this range of time.\n");
  return counts.lost > 0 ? exitCodes.partial : undefined;
};

const writers: Readonly<Record<"text" | "json", (line: EnvelopeLine) => string>> = {
  json: jsonLine,
  // Continuation lines are indented, so that a host cannot forge a line.
  text: ({ text }) =>
    text.map((each) => `${each.split(/\r?\n/).map(shown).join("\n    ")}\n`).join(""),
};

const shown = (text: string) => withoutControls(text.replaceAll("\t", "    "));

const describeDamage = ({
  damaged_block: { first_sequence: first, last_sequence: last, ...block },
}: DamagedBlockLine) =>
  `a stored block is damaged: ${block.envelopes} envelopes, ${first} to ${last} of queue ${block.queue_id}, received at ${block.received_at}`;

const describeUndecodable = ({ kind, sequence, queue_id: queue }: EnvelopeLine): string =>
  `an envelope is no request of OTLP: ${kind} ${sequence} of queue ${queue}`;

/** Yields the lines of a response as they arrive. Throws a `FleetError` if it ends early. */
async function* linesOf(
  client: FleetClient,
  id: string,
  query: Query,
): AsyncGenerator<Line, void, void> {
  const { data } = await readHostEnvelopes<true>({
    client,
    path: { id },
    query,
    parseAs: "stream",
  });
  const decoder = new TextDecoder();
  let parts: string[] = [];
  try {
    for await (const bytes of data as unknown as AsyncIterable<Uint8Array>) {
      const [first = "", ...others] = decoder.decode(bytes, { stream: true }).split("\n");
      parts.push(first);
      for (const part of others) {
        const line = parts.join("");
        parts = [part];
        if (line !== "") yield v.parse(Line, line);
      }
    }
  } catch (cause) {
    if (cause instanceof v.ValiError) throw cause;
    throw incompleteResponse(cause);
  }
  if (parts.join("") !== "") throw incompleteResponse(undefined);
}

const incompleteResponse = (cause: unknown): FleetError =>
  new FleetError(
    problemOf(new Error("the response broke off: what was printed is not all"), undefined),
    { cause },
  );

const resumeSeconds = 2;
/** Blocks are committed out of order: lines received up to this long before the newest one are read again. */
const overlapMs = minuteMs;

/** Creates a filter that prints each line once, and knows from which time of receipt a new stream has all further ones. */
const createLineFilter = (print: (line: Line) => void) => {
  /** The lines of the last minutes, with their times of receipt. */
  const seen = new Map<string, number>();
  let oldest = Number.POSITIVE_INFINITY;
  let newest = 0;
  return {
    /** Undefined before the first line. Lines before the oldest were not asked for: the query's start or limit left them out. */
    resumeAt: () =>
      newest === 0 ? undefined : new Date(Math.max(oldest, newest - overlapMs)).toISOString(),
    print: (line: Line) => {
      const isDamage = "damaged_block" in line;
      const key = isDamage ? JSON.stringify(line) : `${line.queue_id} ${line.sequence}`;
      if (seen.has(key)) return;
      const at = Date.parse(isDamage ? line.damaged_block.received_at : line.received_at);
      oldest = Math.min(oldest, at);
      newest = Math.max(newest, at);
      seen.set(key, at);
      for (const [old, time] of seen) {
        if (time >= newest - 2 * overlapMs) break;
        seen.delete(old);
      }
      print(line);
    },
  };
};

/** Prints lines as they arrive until interrupted. Reopens a stream where it ended, so that following survives a restart of core. */
const followLines = async (
  terminal: Pick<Terminal, "clock" | "err" | "signal">,
  {
    client,
    id,
    query,
    print,
  }: { client: FleetClient; id: string; query: Query; print(line: Line): void },
): Promise<void> => {
  const lines = createLineFilter(print);
  const { limit: _, ...unlimited } = query;
  await repeat(terminal, resumeSeconds, async (succeed) => {
    const from = lines.resumeAt();
    const rest = from === undefined ? query : { ...unlimited, from };
    for await (const line of linesOf(client, id, rest)) {
      succeed();
      lines.print(line);
    }
    return false;
  });
};
