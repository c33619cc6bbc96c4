import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { type ReadTelemetry, readHostTelemetry } from "#functions/domain/telemetry/read-host.ts";
import { downloadRoute, jsonLines } from "#functions/http/download.ts";
import { IdParams, lastingScope } from "#functions/http/resource.ts";
import { QueryTime } from "#functions/v1/query-time.ts";
import type { DamagedBlockLine, EnvelopeLine } from "#proto/telemetry/line.ts";
import { isoTime } from "#proto/telemetry/record-texts.ts";
import { Identifier, QueryInteger } from "#proto/values.ts";

const limitMax = 1_000_000;
/** Without `from` and `limit`. */
const newestByDefault = 100;

const EnvelopesQuery = v.pipe(
  v.strictObject({
    from: v.optional(QueryTime),
    to: v.optional(QueryTime),
    kind: v.optional(
      v.pipe(v.string("must be given once"), v.regex(/^[a-z0-9_]{1,64}$/, "must be a kind")),
    ),
    grep: v.optional(Identifier(256)),
    follow: v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
    limit: v.optional(QueryInteger(1, limitMax)),
  }),
  v.check(
    ({ follow, to }) => follow === "false" || to === undefined,
    "follow has no end: leave out to",
  ),
);

/**
 * `GET /v1/collector/hosts/{id}/envelopes`: streams the stored telemetry of a host, oldest first, with backpressure; audited before the
 * first line. Runs on the pool of reports, a short statement for each block.
 */
export const readEnvelopesRoute = (
  core: Pick<Core, "config" | "db" | "clock" | "entropy" | "codec" | "objects">,
) =>
  downloadRoute(core, {
    path: "/v1/collector/hosts/:id/envelopes",
    operationId: "readHostEnvelopes",
    summary: "The stored telemetry of a host, oldest first: of a range of receipt, or the newest",
    guard: lastingScope(core, "audit"),
    params: IdParams,
    query: EnvelopesQuery,
    problems: ["not_found"],
    file: {
      ...jsonLines,
      description:
        "A line of JSON for each envelope, with its text and its payload; one with `damaged_block` for a block that cannot be read. An empty line each 10 s without others. With `follow` it ends when the caller loses the scope, or with their session or token.",
    },
    // Proxies such as nginx would buffer the response.
    headers: { "X-Accel-Buffering": "no" },
    open: async ({ params, query, caller: { isAdmitted } }, audit) => {
      const now = core.clock.now();
      const { from, to, ...asked } = query;
      const dateOf = (time: typeof from) => (time ? new Date(time(now)) : null);
      const read = {
        from: dateOf(from),
        to: dateOf(to),
        kind: query.kind ?? null,
        grep: query.grep ?? "",
        follow: query.follow === "true",
        limit: query.limit ?? (from ? null : newestByDefault),
      };
      const { host, batches } = await readHostTelemetry(core, params.id, read, { ...audit, asked });
      const admitted = read.follow ? whileAdmitted(batches, core.clock, isAdmitted) : batches;
      return {
        name: `telemetry-${host.slice(host.lastIndexOf("/") + 1)}`,
        asked: {},
        at: new Date(now),
        texts: linesOf(admitted, core.clock),
      };
    },
  });

const admittedMs = 10_000;

/** Ends a response that has no end by itself when its reader is no longer admitted. */
const whileAdmitted = async function* (
  batches: AsyncIterable<ReadTelemetry[]>,
  clock: Pick<Core["clock"], "monotonic">,
  isAdmitted: () => Promise<boolean>,
) {
  let askedAt = clock.monotonic();
  for await (const batch of batches) {
    if (clock.monotonic() - askedAt >= admittedMs) {
      if (!(await isAdmitted())) return;
      askedAt = clock.monotonic();
    }
    yield batch;
  }
};

const silenceMs = 10_000;

/** Yields the lines of batches, and an empty line after a long pause, so that no proxy considers the stream dead. */
const linesOf = async function* (
  batches: AsyncIterable<ReadTelemetry[]>,
  clock: Pick<Core["clock"], "monotonic">,
) {
  let sentAt = clock.monotonic();
  for await (const batch of batches) {
    const isSilent = batch.length === 0 && clock.monotonic() - sentAt < silenceMs;
    if (!isSilent) sentAt = clock.monotonic();
    if (batch.length > 0) yield batch.map((each) => `${JSON.stringify(lineView(each))}\n`).join("");
    else yield isSilent ? "" : "\n";
  }
};

const lineView = (read: ReadTelemetry): EnvelopeLine | DamagedBlockLine => {
  if ("damaged" in read) {
    const { queueId, firstSequence, lastSequence, envelopes, receivedAt } = read.damaged;
    return {
      damaged_block: {
        queue_id: queueId.toHex(),
        first_sequence: String(firstSequence),
        last_sequence: String(lastSequence),
        envelopes,
        received_at: isoTime(receivedAt),
      },
    };
  }
  const { hostId, queueId, sequence, kind, observedAt, receivedAt, source, attributes, payload } =
    read.envelope;
  return {
    host_id: hostId,
    queue_id: queueId.toHex(),
    sequence: String(sequence),
    kind,
    observed_at: observedAt === null ? null : isoTime(observedAt),
    received_at: isoTime(receivedAt),
    source,
    attributes: { ...attributes },
    text: read.texts,
    payload: payload.toBase64(),
  };
};
