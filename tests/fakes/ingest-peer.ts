import { createSecureServer, type Http2Session } from "node:http2";
import { text } from "node:stream/consumers";
import { type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import {
  type DirectiveSchema,
  type Envelope,
  type ForwardRequest,
  type ForwardResponseSchema,
  type Frame,
  FrameSchema,
  IngestService,
  type Status,
  type StatusAnswerSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { encodePem } from "#proto/pem.ts";
import {
  clientExtensions,
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  testNames,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";

/** Faults and refusals of the peer, which a test changes at any time. */
export interface PeerBehaviour {
  /** Returns an error for a whole frame, which ends the stream. */
  refuse?: (frame: Frame) => ConnectError | undefined;
  /** Returns a rejection code for one envelope, which is then consumed and rejected in the ack. */
  reject?: (envelope: Envelope) => string | undefined;
  frameBytesMax?: number;
  /** Takes statuses; without it the peer is a core that knows none. */
  answerStatus?: (status: Status) => MessageInitShape<typeof StatusAnswerSchema>;
  /** Answers a management request; without it there are none. */
  answerPost?: (path: string, body: Record<string, unknown>) => object;
  /** Runs before a frame is committed. */
  beforeCommit?: () => Promise<void>;
  /** Runs between the commit and its ack: throw to lose the ack. */
  afterCommit?: () => Promise<void>;
}

/** An ingest service over HTTP/2 mTLS that stores in memory, by the cursor rules of docs/protocol.md. */
export type IngestPeer = Awaited<ReturnType<typeof startIngestPeer>>;

/** Creates an error like those of core, with its reason. */
export const peerError = (code: Code, reason: string) =>
  new ConnectError("refused", code, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: "svc" } },
  ]);

/** Starts a peer on a free port of the loopback address. */
export const startIngestPeer = async (options: { port?: number; ca?: TestCa } = {}) => {
  const hostId = "https://fleet.test/d/1";
  const ca = options.ca ?? (await createTestCa());
  const [serverKey, clientKey] = await Promise.all([createTestKey(), createTestKey()]);
  // TLS compares dates with the machine's clock.
  const lifetime = { notBefore: new Date("2026-01-01"), notAfter: new Date("2099-01-01") };
  const issueServer = async (by: TestCa) => {
    const der = await issueTestCertificate({
      ...lifetime,
      ca: by,
      key: serverKey,
      extensions: [
        testNames([
          { type: "dns", value: "localhost" },
          { type: "ip", value: "127.0.0.1" },
        ]),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      ],
    });
    return { key: serverKey.pem, cert: encodePem(der, "CERTIFICATE"), ca: ca.pem };
  };
  const clientDer = await issueTestCertificate({
    ...lifetime,
    ca,
    key: clientKey,
    extensions: [testNames([{ type: "url", value: hostId }]), ...clientExtensions()],
  });

  const behaviour: PeerBehaviour = {};
  const stored: Envelope[] = [];
  const cursors = new Map<string, number>();
  const frames: number[] = [];
  let inFlight = 0;
  const statuses: Status[] = [];
  const opens: { takesDirectives: boolean }[] = [];
  const posts: { path: string; body: Record<string, unknown> }[] = [];
  const directs = new Set<(directive: MessageInitShape<typeof DirectiveSchema>) => void>();

  const commit = async (frame: Frame) => {
    const { frameBytesMax } = behaviour;
    if (frameBytesMax !== undefined && toBinary(FrameSchema, frame).byteLength > frameBytesMax)
      throw peerError(Code.ResourceExhausted, "frame_too_large");
    const refusal = behaviour.refuse?.(frame);
    if (refusal !== undefined) throw refusal;
    if (frame.hostId !== hostId) throw peerError(Code.PermissionDenied, "host_identity_mismatch");
    frames.push(frame.envelopes.length);
    await behaviour.beforeCommit?.();
    const id = frame.queueId.toHex();
    const cursor = cursors.get(id) ?? 0;
    if (Number(frame.previousSequence) > cursor)
      throw peerError(Code.FailedPrecondition, "sequence_gap");
    const fresh = frame.envelopes.filter(({ sequence }) => Number(sequence) > cursor);
    // As core does: also envelopes at or below the cursor, so that a lost ack loses no rejection.
    const rejected = frame.envelopes.flatMap((envelope) => {
      const code = behaviour.reject?.(envelope);
      return code === undefined
        ? []
        : [{ sequence: envelope.sequence, code, message: "rejected permanently" }];
    });
    stored.push(
      ...fresh.filter(({ sequence }) => !rejected.some((other) => other.sequence === sequence)),
    );
    const through = Math.max(cursor, Number(frame.envelopes.at(-1)?.sequence ?? 0));
    cursors.set(id, through);
    await behaviour.afterCommit?.();
    return { queueId: frame.queueId, ackedThrough: BigInt(through), rejected };
  };

  const forward = async function* (requests: AsyncIterable<ForwardRequest>) {
    // Reads ahead, as core does, so that frames are in flight while one is being committed.
    const pending: Promise<Awaited<ReturnType<typeof commit>>>[] = [];
    let chain: Promise<unknown> = Promise.resolve();
    let ended = false;
    let wake = Promise.withResolvers<void>();
    const controls: MessageInitShape<typeof ForwardResponseSchema>["message"][] = [];
    const push = (message: (typeof controls)[number]) => {
      controls.push(message);
      wake.resolve();
    };
    const direct = (value: MessageInitShape<typeof DirectiveSchema>) =>
      push({ case: "directive", value });
    directs.add(direct);
    const reading = (async () => {
      for await (const { message } of requests) {
        if (message.case === "status") {
          statuses.push(message.value);
          push({
            case: "statusAnswer",
            value: { seq: message.value.seq, ...behaviour.answerStatus?.(message.value) },
          });
        }
        if (message.case !== "frame") continue;
        inFlight += 1;
        const ack = chain.then(() => commit(message.value));
        chain = ack;
        ack.catch(() => undefined);
        pending.push(ack);
        wake.resolve();
      }
    })()
      .catch(() => undefined)
      .finally(() => {
        ended = true;
        wake.resolve();
      });
    try {
      for (;;) {
        const unsent = controls.shift();
        if (unsent) {
          yield { message: unsent };
          continue;
        }
        const next = pending.shift();
        if (next !== undefined) {
          const ack = await next;
          inFlight -= 1;
          yield { message: { case: "ack" as const, value: ack } };
        } else if (ended) {
          return;
        } else {
          wake = Promise.withResolvers();
          await wake.promise;
        }
      }
    } finally {
      inFlight = 0;
      directs.delete(direct);
      void reading;
    }
  };

  const server = createSecureServer(
    {
      ...(await issueServer(ca)),
      requestCert: true,
      rejectUnauthorized: true,
      minVersion: "TLSv1.2",
      settings: { initialWindowSize: 4 * 1024 * 1024 },
    },
    connectNodeAdapter({
      fallback: (request, response) => {
        const path = request.url ?? "";
        void text(request).then((received) => {
          const body = JSON.parse(received) as Record<string, unknown>;
          posts.push({ path, body });
          const answer = behaviour.answerPost?.(path, body);
          response.writeHead(answer ? 200 : 404, { "content-type": "application/json" });
          response.end(JSON.stringify(answer ?? {}));
        });
      },
      routes: (router) =>
        router.service(IngestService, {
          async *forward(requests) {
            const iterator = requests[Symbol.asyncIterator]();
            const first = await iterator.next();
            if (first.done === true || first.value.message.case !== "open") return;
            const { queueId, takesDirectives } = first.value.message.value;
            opens.push({ takesDirectives });
            const cursor = BigInt(cursors.get(queueId.toHex()) ?? 0);
            const statusIntervalSeconds = behaviour.answerStatus ? 60 : 0;
            yield {
              message: { case: "opened" as const, value: { cursor, statusIntervalSeconds } },
            };
            yield* forward({ [Symbol.asyncIterator]: () => iterator });
          },
          submit: async ({ frame }) => {
            if (frame === undefined) throw new ConnectError("no frame", Code.InvalidArgument);
            return { ack: await commit(frame) };
          },
        }),
    }),
  );
  const resumed: boolean[] = [];
  server.on("secureConnection", (socket) => resumed.push(socket.isSessionReused()));
  const sessions = new Set<Http2Session>();
  server.on("session", (session) => {
    session.setLocalWindowSize(16 * 1024 * 1024);
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
  });
  server.on("sessionError", () => undefined);
  const port = await listenOnLoopback(server, options.port);

  const disconnect = () => {
    for (const session of sessions) session.destroy();
  };
  return {
    endpoint: `127.0.0.1:${port}`,
    tls: { cert: encodePem(clientDer, "CERTIFICATE"), key: clientKey.pem, ca: ca.pem },
    hostId,
    behaviour,
    /** The committed envelopes, in order of commit. */
    stored,
    /** Cursors by queue id in hex. */
    cursors,
    /** For each frame that reached its commit, how many envelopes it had. */
    frames,
    /** For each TLS connection, whether it resumed an earlier session. */
    resumed,
    /** Frames received and not yet acknowledged. */
    get inFlight() {
      return inFlight;
    },
    /** The statuses received. */
    statuses,
    /** Whether each stream takes directives, by its Open. */
    opens,
    /** The management requests received. */
    posts,
    /** Sends a directive on every stream. */
    direct: (directive: MessageInitShape<typeof DirectiveSchema>) => {
      for (const send of directs) send(directive);
    },
    /** Shows a certificate of another authority to new connections. */
    present: async (by: TestCa) => server.setSecureContext(await issueServer(by)),
    /** Destroys every connection, as a crash does. */
    disconnect,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        disconnect();
      }),
  };
};
