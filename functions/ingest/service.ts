import { create, fromBinary, fromJsonString } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ContextValues,
  createContextKey,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import type { Compression, UniversalHandler } from "@connectrpc/connect/protocol";
import { equalBytes } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { ErrorInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "#proto/gen/grpc/health/v1/health_pb.js";
import {
  type Ack,
  type Block,
  type ForwardRequest,
  ForwardRequestSchema,
  type Frame,
  IngestService,
  type Open,
  OpenedSchema,
  type SubmitRequest,
  SubmitRequestSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { Problem } from "../problems.ts";
import type { BlockCodec } from "../store/ingest/stored-envelope.ts";
import { createFrameAcceptor, type IngestObserver } from "./accept-frame.ts";
import { type AccountRegister, createAccountHandlers } from "./accounts.ts";
import {
  type Admission,
  type Caller,
  type CallerCertificate,
  callerCertificateKey,
  callerKey,
  callerOf,
} from "./admission.ts";
import {
  type ByteBudget,
  type HeldBytes,
  type IncompleteMessages,
  reserveOnce,
} from "./byte-budget.ts";
import { toConnectError } from "./connect-error.ts";
import { acceptedEncodings, examineSent } from "./examine-block.ts";
import { ackBytes, checkClaims, type ExaminedFrame, type FrameLimits } from "./examine-frame.ts";
import {
  createPushedAnswers,
  type DecodeMessage,
  type ForwardAnswer,
  type ForwardMessage,
  forward,
} from "./forward.ts";
import { checkLimits, limitMessages, type MessageLimits } from "./limit-messages.ts";
import type { OpenedQueue } from "./open-queue.ts";
import type { OpenStream, OpenStreams } from "./open-streams.ts";
import { serveReflection } from "./reflection.ts";
import type { Sink } from "./sink.ts";
import type { Statuses } from "./statuses.ts";

/** The dependencies of the service. */
export interface IngestDependencies {
  admission: Admission;
  streams: OpenStreams;
  budget: ByteBudget;
  incomplete: IncompleteMessages;
  sink: Sink;
  statuses: Pick<Statuses, "open" | "intervalSeconds">;
  accounts?: AccountRegister | undefined;
  limits: FrameLimits & { frameBytesMax: number };
  /** Serves Forward over binary gRPC in place of `plain`. Without it Connect's handlers serve everything. */
  fastPath?:
    | ((plain: UniversalHandler, shared: SharedWithFastPath) => UniversalHandler)
    | undefined;
  codec: Pick<BlockCodec, "decompress" | "free">;
  clock: Pick<Clock, "now" | "sleep">;
  observe: IngestObserver;
  log: { error(fields: object, message: string): void };
}

/** The parts that the fast path shares with the plain one. */
export interface SharedWithFastPath {
  admit(certificate: CallerCertificate | undefined): Promise<Caller>;
  /** Runs a stream of messages; `disconnected` aborts when the client disconnects. `send` is that of `createPushedAnswers`. */
  run(
    requests: AsyncIterable<readonly DecodeMessage[]>,
    caller: Caller,
    disconnected: AbortSignal,
    send?: (answer: ForwardAnswer) => boolean,
  ): AsyncIterable<ForwardAnswer[]>;
  /** Decodes an encoded `ForwardRequest`, or throws a Problem. */
  decode(message: Uint8Array, caller: Caller): ForwardMessage;
  incomplete: IncompleteMessages;
  limits: FrameLimits;
  clock: Pick<Clock, "now">;
  /** The limit of a message, before and after decompression. */
  bytesMax: number;
  /** Bounds its output before it makes it. */
  gzip: Compression;
}

/** An admitted agent on a socket of its own. */
export interface EnteredAgent {
  caller: Caller;
  stream: OpenStream;
  /** The bytes that core holds for it. */
  bytes: Pick<HeldBytes, "set">;
  /** Removes it; idempotent. */
  leave(): void;
}

/** Options for the adapter that serves the routes: limits that Connect itself must enforce, and the gate before any body is read. */
export type IngestRoutes = ReturnType<typeof createIngestRoutes>;

/** Bytes that ForwardRequest or SubmitRequest adds to a Frame at most: a tag and a length. */
const wrapperBytesMax = 16;

/** Set by the gate for a Submit, which is rejected once its stream ends. */
const submitStreamKey = createContextKey<OpenStream | undefined>(undefined, {
  description: "the stream of a Submit",
});

/** Creates the ingest service of `proto/svc/ingest/v1/ingest.proto` (docs/protocol.md). */
export const createIngestRoutes = (needs: IngestDependencies) => {
  const { admission, streams, budget, incomplete, sink, limits, codec, clock } = needs;
  const readMaxBytes = limits.frameBytesMax + wrapperBytesMax;
  const { count, refuse } = createRefusals(needs);
  const { accept, acceptOf, run } = createStreamRunner(needs, refuse);

  const examine = (sent: Frame | Block, { identity }: Caller): ExaminedFrame =>
    examineSent(sent, { identity, limits, receivedAt: clock.now(), codec });

  const decode = (
    { case: kind, value }: ForwardRequest["message"],
    caller: Caller,
  ): ForwardMessage => {
    if (kind === "open" || kind === "status" || kind === "account")
      return { case: kind, value } as ForwardMessage;
    if (value) return { case: "frame", value: examine(value, caller) };
    throw new Problem("frame_invalid", {
      detail: "a message is neither open, frame, block, status nor account",
    });
  };

  const admit = async (certificate: CallerCertificate | undefined): Promise<Caller> => {
    try {
      return await admission.admit(certificate);
    } catch (error) {
      return refuse(error);
    }
  };

  /** Counts a Submit as a stream before its body is read: a caller can send that slowly, and occupy a frame of memory with each. */
  const enterSubmit = (caller: Caller, { signal, values }: HandlerContext) => {
    try {
      const stream = streams.enter(caller);
      values.set(submitStreamKey, stream);
      if (signal.aborted) stream.leave();
      else signal.addEventListener("abort", stream.leave, { once: true });
    } catch (error) {
      refuse(error);
    }
  };

  const service: ServiceImpl<typeof IngestService> = {
    async *forward(requests, context) {
      const caller = callerOf(context);
      const decoding = async function* (): AsyncGenerator<DecodeMessage[]> {
        for await (const { message } of requests) yield [() => decode(message, caller)];
      };
      for await (const group of run(decoding(), caller, context.signal))
        for (const message of group) yield { message };
    },
    async submit(request, context) {
      try {
        const { frame, block, open } = context.values.get(submittedKey) ?? request;
        const stream = context.values.get(submitStreamKey);
        if (stream?.mayAccept() === false) throw stream.signal.reason;
        const sent = frame ?? block;
        if (sent === undefined || (frame && block))
          throw new Problem("frame_invalid", {
            detail: "a frame or a block is missing, or there are both",
          });
        const caller = callerOf(context);
        const examined = examine(sent, caller);
        if (open === undefined) return { ack: await accept(examined) };
        checkClaims(open, caller.identity, limits);
        return { ack: await acceptOf(await sink.open(open), examined) };
      } catch (error) {
        return refuse(error);
      }
    },
  };

  return {
    /** Registers the service; `gzip` bounds its output before it makes it (G1). */
    routes(router: ConnectRouter, gzip: Compression) {
      router.service(IngestService, service);
      const handlers = router.handlers.map((handler) => {
        const isForward = handler.method === IngestService.method.forward;
        const begin: MessageLimits["begin"] = ({ contextValues, signal }) =>
          incomplete.begin(contextValues?.get(callerKey)?.identity ?? "", signal);
        const shared = { bytesMax: readMaxBytes, gzip };
        const ofKind = isForward ? { isUnary: false } : { isUnary: true, decode: decodeSubmit };
        const plain = limitMessages(handler, { ...shared, begin, ...ofKind });
        if (!isForward || needs.fastPath === undefined) return plain;
        const decodeBytes = (message: Uint8Array, caller: Caller) =>
          decode(decodeForward(message), caller);
        return needs.fastPath(plain, {
          ...shared,
          admit,
          run,
          decode: decodeBytes,
          incomplete,
          limits,
          clock,
        });
      });
      router.handlers.splice(0, router.handlers.length, ...handlers);
      serveReflection(router, clock);
      serveHealth(router, () => sink.health().healthy);
    },
    readMaxBytes,
    /** Ends every stream, and rejects new ones, with `shutting_down`. */
    stop: streams.stop,
    /** Checks the certificate of a connection. */
    check: admission.check,
    /** Records a connection that is rejected for its expired certificate. */
    recordExpired: admission.recordExpired,
    /** Counts a call that the listener rejects, and translates the reason. Logs what is no Problem. */
    refused: count,
    /** Reserves bytes for a body of a management request, in the budget of frames. Returns their release, or null beyond the budget. */
    reserve: (bytes: number) => reserveOnce(budget, bytes),
    /** Admits an agent, whose socket ends as a stream does. Throws a Problem. */
    async enterAgent(certificate: CallerCertificate | undefined): Promise<EnteredAgent> {
      const caller = await admission.admit(certificate, "otelcol");
      const stream = streams.enter(caller);
      const bytes = incomplete.hold(caller.identity);
      const leave = () => {
        stream.leave();
        bytes.end();
      };
      return { caller, stream, bytes, leave };
    },
    async requestGate(context: HandlerContext) {
      const caller = await admit(context.values.get(callerCertificateKey));
      context.values.set(callerKey, caller);
      if (context.method === IngestService.method.submit) enterSubmit(caller, context);
    },
  };
};

/** Counts and translates errors. */
const createRefusals = ({ observe, log }: IngestDependencies) => {
  const count = (error: unknown): ConnectError => {
    const refusal = toConnectError(error);
    // Without a reason it is a protocol error of Connect's own.
    observe.refused(
      refusal.findDetails(ErrorInfoSchema)[0]?.reason ?? Code[refusal.code].toLowerCase(),
    );
    if (refusal.code === Code.Internal) log.error({ err: refusal.cause ?? error }, "ingest failed");
    return refusal;
  };

  /** Counts and translates an error. After `disconnected` aborts, what is no Problem is the failure of the connection. */
  const refuse = (error: unknown, disconnected?: AbortSignal): never => {
    const isOurs =
      error instanceof Problem || (error instanceof ConnectError && error.code !== Code.Canceled);
    if (disconnected?.aborted && !isOurs)
      throw new ConnectError("the client disconnected", Code.Canceled);
    throw count(error);
  };

  return { count, refuse };
};

/** Creates what runs streams of messages, and accepts the frames of opened queues. */
const createStreamRunner = (
  needs: IngestDependencies,
  refuse: (error: unknown, disconnected?: AbortSignal) => never,
) => {
  const { streams, budget, incomplete, sink, statuses, limits, clock } = needs;
  const accept = createFrameAcceptor(needs);
  const accountHandlersOf = createAccountHandlers(needs.accounts, (err) =>
    needs.log.error({ err }, "an account failed"),
  );
  const offered = {
    blockEncodings: acceptedEncodings,
    statusIntervalSeconds: statuses.intervalSeconds,
    takesAccounts: needs.accounts !== undefined,
  };

  /** Commits a frame of an opened queue. */
  const acceptOf = async (
    queue: OpenedQueue | undefined,
    examined: ExaminedFrame,
  ): Promise<Ack> => {
    if (queue?.sessionId === undefined) return accept(examined);
    const { queueId, sessionId } = queue;
    if (!equalBytes(examined.frame.queueId, queueId)) {
      examined.release?.();
      throw new Problem("frame_invalid", { detail: "a frame is of another queue than open" });
    }
    return accept({ ...examined, frame: { ...examined.frame, sessionId } });
  };

  /** Enters a stream: its steps, what ends it, what notes that answers were sent, and what leaves it. */
  const enter = (
    caller: Caller,
    disconnected: AbortSignal,
    send: ((answer: ForwardAnswer) => boolean) | undefined,
  ) => {
    const stream = streams.enter(caller);
    const pushed = createPushedAnswers(send);
    const channel = statuses.open(caller, pushed.push);
    const leave = () => {
      channel.close();
      stream.leave();
    };
    // An answer that is unsent then is never sent, and nothing resumes the generator.
    disconnected.addEventListener("abort", leave, { once: true });
    let queue: OpenedQueue | undefined;
    const unsent = incomplete.begin(caller.identity, disconnected);
    let unsentBytes = 0;
    let lastFrame: Promise<Ack | undefined> = Promise.resolve(undefined);
    const steps = {
      mayAccept: stream.mayAccept,
      async open(claims: Open): Promise<ForwardAnswer> {
        checkClaims(claims, caller.identity, limits);
        // Hours wait for no account that this core would not take.
        claims.sendsAccounts &&= offered.takesAccounts;
        queue = await sink.open(claims, () => disconnected.aborted || stream.signal.aborted);
        if (claims.takesDirectives) channel.takeDirectives();
        return {
          case: "opened",
          value: create(OpenedSchema, {
            ...offered,
            cursor: queue.cursor,
            leftCursors: queue.left?.map(({ cursor }) => cursor) ?? [],
          }),
        };
      },
      async accept(frame: ExaminedFrame): Promise<ForwardAnswer> {
        const accepted = acceptOf(queue, frame);
        lastFrame = accepted;
        const ack = await accepted;
        unsentBytes += ackBytes(ack);
        unsent.hold(unsentBytes, false);
        return { case: "ack", value: ack };
      },
      status: channel.receive,
      account: accountHandlersOf(caller, () => ({ queue, lastFrame })),
      untilReadable: (...signals: AbortSignal[]) =>
        budget.untilReadable(caller.identity, ...signals),
      nextTurn: () => clock.sleep(0),
    };
    const noteSent = (answers: readonly ForwardAnswer[]) => {
      for (const { case: kind, value } of answers)
        if (kind === "ack") unsentBytes -= ackBytes(value);
      unsent.hold(unsentBytes, false);
    };
    return { steps, ends: { abort: stream.signal, disconnected, pushed }, noteSent, leave };
  };

  const run = async function* (
    requests: AsyncIterable<readonly DecodeMessage[]>,
    caller: Caller,
    disconnected: AbortSignal,
    send?: (answer: ForwardAnswer) => boolean,
  ): AsyncGenerator<ForwardAnswer[]> {
    try {
      const { steps, ends, noteSent, leave } = enter(caller, disconnected, send);
      try {
        for await (const answers of forward(requests, steps, ends)) {
          yield answers;
          noteSent(answers);
        }
      } finally {
        leave();
      }
    } catch (error) {
      refuse(error, disconnected);
    }
  };

  return { accept, acceptOf, run };
};

/** A Submit's message, decoded before Connect sees it. */
const submittedKey = createContextKey<SubmitRequest | undefined>(undefined, {
  description: "the decoded SubmitRequest",
});

const forwardWire = createWireCheck(ForwardRequestSchema);

/** Decodes a ForwardRequest. Throws a Problem for other bytes, and for one that holds more than `messageLimits`. */
const decodeForward = (bytes: Uint8Array): ForwardRequest["message"] => {
  checkLimits(forwardWire.check, bytes);
  try {
    return fromBinary(ForwardRequestSchema, bytes, { readUnknownFields: false }).message;
  } catch (cause) {
    throw new Problem("frame_invalid", { detail: "the message is not a ForwardRequest", cause });
  }
};

/** Decodes a SubmitRequest into the context's values. Returns an empty one for Connect to decode. */
const decodeSubmit = (
  message: Uint8Array<ArrayBuffer>,
  codec: string,
  values: ContextValues | undefined,
) => {
  if (values === undefined) return message;
  try {
    const isJson = codec === "json";
    values.set(
      submittedKey,
      isJson
        ? fromJsonString(SubmitRequestSchema, strictUtf8.decode(message), {
            ignoreUnknownFields: true,
          })
        : fromBinary(SubmitRequestSchema, message, { readUnknownFields: false }),
    );
    return isJson ? Uint8Array.of(0x7b, 0x7d) : new Uint8Array();
  } catch (cause) {
    throw new Problem("frame_invalid", { detail: "the message is not a SubmitRequest", cause });
  }
};

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

const requestBytesMax = 4096;

/** Serves the health checks of gRPC for the server and for the ingest service. Clients do without `Watch`, which is unimplemented. */
const serveHealth = (router: ConnectRouter, isHealthy: () => boolean) => {
  const check = ({ service }: { service: string }) => {
    if (service !== "" && service !== IngestService.typeName)
      throw new ConnectError("unknown service", Code.NotFound);
    return { status: isHealthy() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING };
  };
  router.service(Health, { check }, { readMaxBytes: requestBytesMax });
};
