import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createSecureServer } from "node:http2";
import { createServer } from "node:https";
import type { TLSSocket } from "node:tls";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestKey,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";

/** A request that the server received. */
export interface ManagementCall {
  path: string;
  /** `1.1` or `2.0`. */
  httpVersion: string;
  authority: unknown;
  authorization: string | undefined;
  traceparent: unknown;
  body: Record<string, unknown>;
  /** DER of the client certificate of the TLS connection. */
  certificate: Uint8Array | undefined;
  /** The TLS connection resumed an earlier session. */
  isResumed: boolean;
  /** The port of the client: calls with the same one share a connection. */
  clientPort: number | undefined;
}

/** A response, whose object is sent as JSON. `cut` closes the connection instead, after the request was read. */
export type ManagementReply =
  | { status: number; body: object; headers?: Record<string, string> }
  | "cut";

/** A TLS server on loopback with a test's responses, for clients of core's management paths. */
export type ManagementServer = Awaited<ReturnType<typeof startManagementServer>>;

/** Starts a server; with `http2` it speaks HTTP/2 alone, as core's ingest listener may. Requests client certificates and does not check them. */
export const startManagementServer = async (
  options: { http2?: boolean; name?: string; notBefore?: Date } = {},
) => {
  const ca = await createTestCa({ name: "Server CA" });
  const key = await createTestKey();
  const issueServer = async (by: TestCa) => {
    const der = await issueTestCertificate({
      ca: by,
      key,
      names: [{ type: "dns", value: options.name ?? "localhost" }],
      extensions: [
        new x509.SubjectAlternativeNameExtension([
          { type: "dns", value: options.name ?? "localhost" },
        ]),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      ],
      notBefore: options.notBefore ?? new Date("2020-01-01"),
      notAfter: new Date("2099-01-01"),
    });
    return { key: key.pem, cert: encodePem(der, "CERTIFICATE") };
  };
  const calls: ManagementCall[] = [];
  let answer: (call: ManagementCall) => ManagementReply | Promise<ManagementReply> = () => ({
    status: 404,
    body: {},
  });

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const session = (request as { stream?: { session?: { socket: unknown } } }).stream?.session;
    const socket = (session?.socket ?? request.socket) as TLSSocket;
    const certificate = socket.getPeerX509Certificate()?.raw;
    const call: ManagementCall = {
      path: request.url ?? "",
      httpVersion: request.httpVersion,
      authority: request.headers[":authority"],
      authorization: request.headers.authorization,
      traceparent: request.headers.traceparent,
      body: JSON.parse(text),
      certificate: certificate && new Uint8Array(certificate),
      isResumed: socket.isSessionReused(),
      clientPort: socket.remotePort,
    };
    calls.push(call);
    const reply = await answer(call);
    if (reply === "cut") return void socket.destroy();
    const type = reply.status < 300 ? "application/json" : "application/problem+json";
    response
      .writeHead(reply.status, { "content-type": type, ...reply.headers })
      .end(JSON.stringify(reply.body));
  };
  const listener: RequestListener = (request, response) => void handle(request, response);
  const tls = {
    ...(await issueServer(ca)),
    requestCert: true,
    rejectUnauthorized: false,
  };
  const server = options.http2
    ? createSecureServer({ ...tls, allowHTTP1: false }, listener as never)
    : createServer(tls, listener);
  const sockets = new Set<TLSSocket>();
  server.on("secureConnection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
  });
  server.on("sessionError", () => undefined);
  const port = await listenOnLoopback(server);
  return {
    /** `https://localhost:<port>`. */
    url: `https://localhost:${port}`,
    port,
    /** PEM of the authority that signed the server's certificate. */
    caPem: ca.pem,
    calls,
    /** Shows a certificate of another authority to new connections. */
    present: async (by: TestCa) => server.setSecureContext(await issueServer(by)),
    /** Sets the response to the next calls. */
    reply: (next: (call: ManagementCall) => ManagementReply | Promise<ManagementReply>) => {
      answer = next;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
};

/** Creates the response of enroll or renew to `call`, with a certificate from `ca`; `over` replaces parts with wrong ones. */
export const issueFor = async (
  ca: TestCa,
  call: ManagementCall,
  over: { key?: TestKey; uri?: string; chainPem?: string; extensions?: x509.Extension[] } = {},
) => {
  const csr = new x509.Pkcs10CertificateRequest(String(call.body.csr_pem));
  const san = csr.extensions.find(
    (extension) => extension instanceof x509.SubjectAlternativeNameExtension,
  );
  const uri = over.uri ?? san?.names.items[0]?.value ?? "";
  const publicKey = over.key?.pair.publicKey ?? (await csr.publicKey.export());
  const der = await issueTestCertificate({
    ca,
    key: { pair: { publicKey } } as TestKey,
    uri,
    ...(over.extensions === undefined ? {} : { extensions: over.extensions }),
    notBefore: new Date("2026-01-01"),
    notAfter: new Date("2099-01-01"),
  });
  return {
    status: call.path.endsWith("enroll") ? 201 : 200,
    body: {
      identity_id: "0197b0c6-0000-7000-8000-000000000001",
      certificate_id: "0197b0c6-0000-7000-8000-000000000002",
      identity: uri,
      certificate_pem: encodePem(der, "CERTIFICATE"),
      chain_pem: over.chainPem ?? ca.pem,
      serial_number: "1a2b3c",
      fingerprint_sha256: "0".repeat(64),
      not_before: "2026-01-01T00:00:00.000Z",
      not_after: "2099-01-01T00:00:00.000Z",
      renew_after: "2062-01-01T00:00:00.000Z",
      heartbeat_interval_seconds: 60,
      server_time: "2026-06-01T12:00:00.000Z",
    },
  };
};

/** Creates a problem document like core's. */
export const refusal = (status: number, code: string, members: object = {}) => ({
  status,
  body: {
    type: `urn:svc:problem:${code}`,
    title: code,
    status,
    detail: `refused: ${code}`,
    code,
    action: "stop",
    ...members,
  },
});
