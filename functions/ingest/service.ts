import { Code, type ConnectRouter, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../proto/gen/google/rpc/error_details_pb.js";
import { type Frame, IngestService, type Open } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import type { Clock } from "../kit/clock.ts";
import { Problem } from "../problems.ts";
import { type Admission, type Caller, callerCertificateKey, callerKey } from "./admission.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { Committer } from "./committer.ts";
import { toConnectError } from "./connect-error.ts";
import { checkClaims, type ExaminedFrame, examineFrame, type FrameLimits } from "./examine-frame.ts";
import { forward } from "./forward.ts";
import { limitFrameBytes, wrapperBytesMax } from "./limit-frame-bytes.ts";
import type { OpenStreams } from "./open-streams.ts";

/** What ingest tells of its work. Labels never hold a host. */
export interface IngestObserver {
  /** A frame was committed. `discarded`, `rejected` and the rest count what this commit consumed: a resend counts nothing. */
  committed(facts: { envelopes: number; bytes: number; discarded: number; rejected: readonly string[] }): void;
  /** A frame or a stream was refused. */
  refused(reason: string): void;
}

/** What the service needs. */
export interface IngestDependencies {
  admission: Admission;
  streams: OpenStreams;
  budget: ByteBudget;
  committer: Committer;
  findCursor(hostId: string, queueId: Uint8Array): Promise<bigint>;
  limits: FrameLimits & { frameBytesMax: number };
  clock: Pick<Clock, "now">;
  observe: IngestObserver;
  log: { error(fields: object, message: string): void };
}

/** Options for the adapter that serves the routes: limits that Connect itself must hold, and the gate before any body is read. */
export interface IngestRoutes {
  routes(router: ConnectRouter): void;
  readMaxBytes: number;
  requestGate(context: HandlerContext): Promise<void>;
  /** Ends every stream, and refuses new ones, with `shutting_down`. */
  stop(): void;
}

/** The ingest service of `proto/svc/ingest/v1/ingest.proto` (contract, section 7). */
export const createIngestRoutes = (needs: IngestDependencies): IngestRoutes => {
  const { admission, streams, budget, committer, limits, clock, observe } = needs;
  const readMaxBytes = limits.frameBytesMax + wrapperBytesMax;

  const refuse = (error: unknown): never => {
    const refusal = toConnectError(error);
    const reason = refusal.findDetails(ErrorInfoSchema)[0]?.reason;
    // Without a reason it is the caller who went away, or a protocol error of Connect's own.
    observe.refused(reason ?? Code[refusal.code].toLowerCase());
    if (refusal.code === Code.Internal) needs.log.error({ err: refusal.cause ?? error }, "ingest failed");
    throw refusal;
  };

  const accept = async (sent: Frame, caller: Caller) => {
    const examined = examineFrame(sent, caller.identity, limits, clock.now());
    if (!budget.take(examined.bytes)) throw new Problem("overloaded");
    try {
      const { outcome, before, cursor } = await committer.commit(examined.frame, examined.bytes);
      if (outcome === "sequence_gap") throw new Problem("sequence_gap", { extensions: { cursor } });
      if (cursor > before) observe.committed(consumed(examined, before));
      return { queueId: sent.queueId, ackedThrough: cursor, rejected: [...examined.rejected] };
    } finally {
      budget.give(examined.bytes);
    }
  };

  const service: ServiceImpl<typeof IngestService> = {
    async *forward(requests, context) {
      const caller = callerOf(context);
      try {
        const stream = streams.enter(caller);
        try {
          const steps = {
            open: async (claims: Open) => {
              checkClaims(claims, caller.identity, limits);
              return { cursor: await needs.findCursor(caller.identity, claims.queueId) };
            },
            accept: (frame: Frame) => accept(frame, caller),
            untilReadable: budget.untilReadable,
          };
          const signals = { cut: stream.signal, gone: context.signal };
          for await (const message of forward(requests, steps, signals)) yield { message };
        } finally {
          stream.leave();
        }
      } catch (error) {
        refuse(error);
      }
    },
    async submit({ frame }, context) {
      try {
        if (frame === undefined) throw new Problem("frame_invalid", { detail: "frame is missing" });
        return { ack: await accept(frame, callerOf(context)) };
      } catch (error) {
        return refuse(error);
      }
    },
  };

  return {
    routes(router) {
      router.service(IngestService, service);
      router.handlers.splice(
        0,
        router.handlers.length,
        ...router.handlers.map((handler) => limitFrameBytes(handler, readMaxBytes)),
      );
    },
    readMaxBytes,
    stop: streams.stop,
    async requestGate(context) {
      try {
        context.values.set(callerKey, await admission.admit(context.values.get(callerCertificateKey)));
      } catch (error) {
        refuse(error);
      }
    },
  };
};

const callerOf = (context: HandlerContext): Caller => {
  const caller = context.values.get(callerKey);
  if (caller === undefined) throw new Error("the gate was passed by");
  return caller;
};

/** What of a frame lay above the cursor, and so was consumed by this commit and by no earlier one. */
const consumed = ({ frame, rejected, discarded }: ExaminedFrame, before: bigint) => {
  let envelopes = 0;
  let bytes = 0;
  for (const row of frame.rows) {
    if (row.sequence <= before) continue;
    envelopes++;
    bytes += row.payload.length;
  }
  return {
    envelopes,
    bytes,
    discarded: discarded.filter((sequence) => sequence > before).length,
    rejected: rejected.filter(({ sequence }) => sequence > before).map(({ code }) => code),
  };
};
