import { create } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createContextKey,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { createBufferPool } from "../../kit/buffer-pool.ts";
import type { Clock } from "../../kit/clock.ts";
import { ErrorInfoSchema } from "../../proto/gen/google/rpc/error_details_pb.js";
import {
  type Ack,
  AckSchema,
  type ForwardRequest,
  type Frame,
  IngestService,
  type Open,
  OpenedSchema,
  RejectionSchema,
} from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { rowsAbove } from "../store/encode-envelopes.ts";
import { type Admission, type Caller, type CallerCertificate, callerCertificateKey, callerKey } from "./admission.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { Committer } from "./committer.ts";
import { toConnectError } from "./connect-error.ts";
import { frameField } from "./count-entries.ts";
import { checkClaims, type ExaminedFrame, examineFrame, type FrameLimits } from "./examine-frame.ts";
import { type ForwardMessage, forward } from "./forward.ts";
import { createGrpcForward, type ForwardAnswer } from "./grpc-forward.ts";
import { limitEntries } from "./limit-entries.ts";
import { limitFrameBytes, wrapperBytesMax } from "./limit-frame-bytes.ts";
import type { OpenStreams } from "./open-streams.ts";
import { readFrame } from "./read-frame.ts";

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
  /** Registers the service; `gzip` bounds its output before it is made (G1). */
  routes(router: ConnectRouter, gzip: Compression): void;
  readMaxBytes: number;
  requestGate(context: HandlerContext): Promise<void>;
  /** Ends every stream, and refuses new ones, with `shutting_down`. */
  stop(): void;
}

const idleBuffersBytesMax = 16 * 1024 * 1024;

/** Set by the gate for a Submit: aborts once its caller may send no longer. */
const cutKey = createContextKey<AbortSignal | undefined>(undefined, { description: "why a Submit is refused" });

/** The ingest service of `proto/svc/ingest/v1/ingest.proto` (contract, section 7). */
export const createIngestRoutes = (needs: IngestDependencies): IngestRoutes => {
  const { admission, streams, budget, committer, limits, clock, observe } = needs;
  const readMaxBytes = limits.frameBytesMax + wrapperBytesMax;
  const buffers = createBufferPool(idleBuffersBytesMax);

  /** Counts and translates a refusal; `gone` tells that nobody is there to hear it, and that what failed is the connection. */
  const refuse = (error: unknown, gone?: AbortSignal): never => {
    const heard = error instanceof Problem || (error instanceof ConnectError && error.code !== Code.Canceled);
    if (gone?.aborted && !heard) throw new ConnectError("the client went away", Code.Canceled);
    const refusal = toConnectError(error);
    // Without a reason it is a protocol error of Connect's own.
    observe.refused(refusal.findDetails(ErrorInfoSchema)[0]?.reason ?? Code[refusal.code].toLowerCase());
    if (refusal.code === Code.Internal) needs.log.error({ err: refusal.cause ?? error }, "ingest failed");
    throw refusal;
  };

  const accept = async (sent: Frame, caller: Caller): Promise<Ack> =>
    acceptExamined(examineFrame(sent, caller.identity, limits, clock.now()));

  const acceptExamined = async (examined: ExaminedFrame): Promise<Ack> => {
    if (!budget.take(examined.bytes)) throw new Problem("overloaded");
    try {
      const { outcome, before, cursor } = await committer.commit(examined.frame, examined.bytes);
      if (outcome === "sequence_gap") throw new Problem("sequence_gap", { extensions: { cursor } });
      if (cursor > before) observe.committed(consumed(examined, before));
      const rejected = examined.rejected.map((rejection) => create(RejectionSchema, rejection));
      return create(AckSchema, { queueId: examined.frame.queueId, ackedThrough: cursor, rejected });
    } finally {
      budget.give(examined.bytes);
      buffers.give(examined.frame.rows.bytes);
    }
  };

  const read = (message: Uint8Array, caller: Caller): ExaminedFrame | undefined =>
    readFrame(message, { identity: caller.identity, limits, receivedAt: clock.now(), buffers });

  const run = async function* (
    requests: AsyncIterable<readonly ForwardMessage[]>,
    caller: Caller,
    gone: AbortSignal,
  ): AsyncGenerator<ForwardAnswer[]> {
    try {
      const stream = streams.enter(caller);
      try {
        const steps = {
          async open(claims: Open): Promise<ForwardAnswer> {
            checkClaims(claims, caller.identity, limits);
            const cursor = await needs.findCursor(caller.identity, claims.queueId);
            return { case: "opened", value: create(OpenedSchema, { cursor }) };
          },
          async accept(frame: Frame): Promise<ForwardAnswer> {
            return { case: "ack", value: await accept(frame, caller) };
          },
          async acceptExamined(frame: ExaminedFrame): Promise<ForwardAnswer> {
            return { case: "ack", value: await acceptExamined(frame) };
          },
          untilReadable: budget.untilReadable,
        };
        yield* forward(requests, steps, { cut: stream.signal, gone });
      } finally {
        stream.leave();
      }
    } catch (error) {
      refuse(error, gone);
    }
  };
  const admit = async (certificate: CallerCertificate | undefined): Promise<Caller> => {
    try {
      return await admission.admit(certificate);
    } catch (error) {
      return refuse(error);
    }
  };

  /** Before its body is read: a caller may send that as slowly as it likes, and hold a frame of memory with each. */
  const enterSubmit = (caller: Caller, { signal, values }: HandlerContext): void => {
    try {
      const stream = streams.enter(caller);
      values.set(cutKey, stream.signal);
      if (signal.aborted) stream.leave();
      else signal.addEventListener("abort", stream.leave, { once: true });
    } catch (error) {
      refuse(error);
    }
  };

  const service: ServiceImpl<typeof IngestService> = {
    async *forward(requests, context) {
      for await (const group of run(singly(requests), callerOf(context), context.signal))
        for (const message of group) yield { message };
    },
    async submit({ frame }, context) {
      try {
        context.values.get(cutKey)?.throwIfAborted();
        if (frame === undefined) throw new Problem("frame_invalid", { detail: "frame is missing" });
        return { ack: await accept(frame, callerOf(context)) };
      } catch (error) {
        return refuse(error);
      }
    },
  };

  return {
    routes(router, gzip) {
      router.service(IngestService, service);
      const limited = router.handlers.map((handler) => {
        const isForward = handler.method === IngestService.method.forward;
        const field = isForward ? frameField.forward : frameField.submit;
        const usual = limitFrameBytes(limitEntries(handler, { field, readMaxBytes, gzip }), readMaxBytes);
        const carrier = { admit, run, readFrame: read, readMaxBytes, buffers, gzip };
        return isForward ? createGrpcForward(usual, carrier) : usual;
      });
      router.handlers.splice(0, router.handlers.length, ...limited);
    },
    readMaxBytes,
    stop: streams.stop,
    async requestGate(context) {
      const caller = await admit(context.values.get(callerCertificateKey));
      context.values.set(callerKey, caller);
      if (context.method === IngestService.method.submit) enterSubmit(caller, context);
    },
  };
};

async function* singly(requests: AsyncIterable<ForwardRequest>): AsyncGenerator<ForwardMessage[]> {
  for await (const { message } of requests) yield [message];
}

const callerOf = (context: HandlerContext): Caller => {
  const caller = context.values.get(callerKey);
  if (caller === undefined) throw new Error("the gate was passed by");
  return caller;
};

/** What of a frame lay above the cursor, and so was consumed by this commit and by no earlier one. */
const consumed = ({ frame, rejected, discarded }: ExaminedFrame, before: bigint) => {
  const { count, payloadBytes } = before > frame.previousSequence ? rowsAbove(frame.rows, before) : frame.rows;
  return {
    envelopes: count,
    bytes: payloadBytes,
    discarded: discarded.filter((sequence) => sequence > before).length,
    rejected: rejected.filter(({ sequence }) => sequence > before).map(({ code }) => code),
  };
};
