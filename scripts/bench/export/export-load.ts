import { create } from "@bufbuild/protobuf";
import type { Committer } from "#functions/ingest/committer.ts";
import { runOf } from "#functions/store/ingest/envelope-run.ts";
import { systemClock } from "#kit/clock.ts";
import { EnvelopeSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { quantile } from "#scripts/lab/quantile.ts";
import { type CorpusRecord, createSupply } from "../support/corpus/corpus.ts";

/** Envelopes of a frame, and hosts that send them in turn. */
const frameRows = 50;
const hosts = 200;
const tickMs = 25;

/** The rate that a load committed, and how long its frames waited. */
export interface LoadFigures {
  rate: number;
  p50: number;
  p99: number;
}

/** Stores frames as core does, without its network. */
export interface ExportLoad {
  /** Commits `perSecond` envelopes a second for `seconds`. */
  paced(perSecond: number, seconds: number): Promise<LoadFigures>;
  /** Commits as many as it can, `inFlight` frames at a time. */
  unpaced(seconds: number): Promise<LoadFigures>;
  /** Commits so many envelopes. */
  store(envelopes: number): Promise<void>;
}

/** Creates a load of these lines, which has at most so many frames under way unless it is paced. */
export const createExportLoad = (
  committer: Pick<Committer, "commit">,
  lines: readonly CorpusRecord[],
  inFlight: number,
): ExportLoad => {
  const nextLine = createSupply(lines);
  const queueId = crypto.getRandomValues(new Uint8Array(16));
  const cursors = new Array<bigint>(hosts).fill(0n);
  let host = 0;

  const frame = async (): Promise<number> => {
    host = (host + 1) % hosts;
    const hostId = `spiffe://fleet.bench/host/${host}`;
    const previousSequence = cursors[host] ?? 0n;
    const lastSequence = previousSequence + BigInt(frameRows);
    cursors[host] = lastSequence;
    const run = runOf(
      Array.from({ length: frameRows }, (_, index) =>
        create(EnvelopeSchema, {
          sequence: previousSequence + BigInt(index) + 1n,
          kind: "log_line",
          source: "files",
          attributes: { "file.path": "/var/log/app.log" },
          observedAt: { seconds: 1_795_000_000n, nanos: 0 },
          payload: nextLine(),
        }),
      ),
    );
    const startedAt = performance.now();
    const receivedAt = Date.now();
    await committer.commit(
      { hostId, queueId, receivedAt, run, previousSequence, lastSequence },
      run.payloadBytes,
    );
    return performance.now() - startedAt;
  };
  const figuresOf = (latencies: readonly number[], seconds: number): LoadFigures => {
    const samples = Float64Array.from(latencies);
    return {
      rate: (latencies.length * frameRows) / seconds,
      p50: quantile(samples, 0.5),
      p99: quantile(samples, 0.99),
    };
  };
  const run = async (frames: number, until = Number.POSITIVE_INFINITY): Promise<number[]> => {
    const latencies: number[] = [];
    let left = frames;
    const loop = async () => {
      while (left-- > 0 && performance.now() < until) latencies.push(await frame());
    };
    await Promise.all(Array.from({ length: inFlight }, loop));
    return latencies;
  };
  return {
    async paced(perSecond, seconds) {
      const startedAt = performance.now();
      const frames: Promise<number>[] = [];
      for (let at = 0; at < seconds * 1000; at = performance.now() - startedAt) {
        while (frames.length * frameRows < (perSecond * at) / 1000) frames.push(frame());
        await systemClock.sleep(tickMs);
      }
      const latencies = await Promise.all(frames);
      return figuresOf(latencies, (performance.now() - startedAt) / 1000);
    },
    async unpaced(seconds) {
      const startedAt = performance.now();
      const latencies = await run(Number.POSITIVE_INFINITY, startedAt + seconds * 1000);
      return figuresOf(latencies, (performance.now() - startedAt) / 1000);
    },
    async store(envelopes) {
      await run(Math.ceil(envelopes / frameRows));
    },
  };
};
