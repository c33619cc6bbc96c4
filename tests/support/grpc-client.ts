import { fileURLToPath } from "node:url";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { onTestFinished } from "vitest";
import type { TestClient, TestIngest } from "./ingest.ts";

const definition = loadSync(
  fileURLToPath(new URL("../../proto/svc/ingest/v1/ingest.proto", import.meta.url)),
  {
    keepCase: true,
    longs: String,
    defaults: true,
    includeDirs: [fileURLToPath(new URL("../../proto", import.meta.url))],
  },
);
// biome-ignore lint/suspicious/noExplicitAny: what the loader makes has no static type
const { IngestService } = (grpc.loadPackageDefinition(definition) as any).svc.ingest.v1;

/** A message of a stream, as the loader returns it. */
export interface ForeignMessage {
  opened?: { cursor: string; status_interval_seconds: number } | null;
  ack?: { acked_through: string; rejected: { sequence: string; code: string }[] } | null;
  status_answer?: {
    seq: string;
    report_needed: boolean;
    refused: string;
    next_status_seconds: number;
    desired_config: { config_id: string; config_hash: string } | null;
    renew_now: boolean;
  } | null;
  directive?: { spread_ms: number } | null;
}

/** A gRPC client that shares no code with ours: grpc-js, with the .proto loaded at run time. */
export interface ForeignClient extends grpc.Client {
  Forward(): grpc.ClientDuplexStream<unknown, ForeignMessage>;
  Submit(
    request: unknown,
    callback: (error: grpc.ServiceError | null, response: ForeignMessage) => void,
  ): void;
}

/** Connects with a client certificate, or without one. Close it. */
export const connectForeign = (
  to: Pick<TestIngest, "port" | "caPem">,
  certificate?: TestClient,
): ForeignClient => {
  const credentials = grpc.credentials.createSsl(
    Buffer.from(to.caPem),
    certificate ? Buffer.from(certificate.key) : null,
    certificate ? Buffer.from(certificate.cert) : null,
  );
  const options = { "grpc.enable_retries": 0, "grpc.max_send_message_length": -1 };
  return new IngestService(`localhost:${to.port}`, credentials, options);
};

/** Connects for the test that runs. */
export const connectInTest: typeof connectForeign = (to, certificate) => {
  const client = connectForeign(to, certificate);
  onTestFinished(() => client.close());
  return client;
};

/** Returns the cursors that core reported on a stream. */
export const cursorsOf = ({ messages }: Pick<Ended, "messages">) =>
  messages.map(({ opened, ack }) => opened?.cursor ?? ack?.acked_through);

/** How core ends the stream of a session that another has taken over, and that of a copy. */
export const superseded = {
  code: grpc.status.FAILED_PRECONDITION,
  reason: "session_superseded",
};
export const forked = { code: grpc.status.FAILED_PRECONDITION, reason: "queue_forked" };

/** The messages of a stream that has ended, and its error with the reason of its `google.rpc.ErrorInfo`. */
export interface Ended {
  messages: ForeignMessage[];
  error?: { code: number; reason: string | undefined; cursor: string | undefined };
}

/** Sends messages, then reads until the stream ends. */
export const forwardAll = (client: ForeignClient, sent: readonly unknown[]): Promise<Ended> => {
  const { call, ended } = openForward(client);
  for (const message of sent) call.write(message);
  call.end();
  return ended;
};

/** Opens a stream. */
export const openForward = (client: ForeignClient) => {
  const messages: ForeignMessage[] = [];
  const call = client.Forward();
  call.on("data", (message: ForeignMessage) => messages.push(message));
  const ended = new Promise<Ended>((resolve) => {
    call.on("error", (error: grpc.ServiceError) =>
      resolve({ messages, error: describeError(error) }),
    );
    call.on("end", () => setImmediate(resolve, { messages }));
  });
  return { call, messages, ended };
};

/** Sends one frame, with an Open if there is one. */
export const submit = (client: ForeignClient, frame: unknown, open?: unknown): Promise<Ended> =>
  new Promise((resolve) =>
    client.Submit({ frame, open }, (error, response) =>
      resolve(error ? { messages: [], error: describeError(error) } : { messages: [response] }),
    ),
  );

const describeError = (error: grpc.ServiceError) => {
  // In google.rpc.Status and its Any the strings of ErrorInfo are readable between the bytes of tags and lengths.
  const [details] = error.metadata?.get("grpc-status-details-bin") ?? [];
  const text = Buffer.from(details ?? "").toString("latin1");
  const words = Array.from(text.matchAll(/[\w./]+/g), ([word]) => word);
  const after = (name: string) => words.slice(words.indexOf(name) + 1)[0];
  return {
    code: error.code,
    reason: words[words.indexOf("type.googleapis.com/google.rpc.ErrorInfo") + 1],
    cursor: words.includes("cursor") ? after("cursor") : undefined,
  };
};
