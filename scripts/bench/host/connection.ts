import type { NetConnectOpts } from "node:net";
import { type ConnectionOptions, connect, type SecureContext } from "node:tls";
import { forwardPath } from "#collector/forward/messages.ts";
import type { ResumeTls } from "#collector/identity/resume-tls.ts";
import { unpooled } from "#kit/buffer-pool.ts";
import { createGrpcMessageReader, frameGrpcMessages } from "#proto/grpc-framing.ts";
import {
  clientPreface,
  createFrameReader,
  dataFrame,
  postHeaders,
  requestFrames,
} from "./http2-frames.ts";

/** A connection of one host to the ingest listener: HTTP/2 over mutual TLS. */
export interface HostConnection {
  /** Posts JSON. Rejects when the connection ends before the response does. `status` is 0 for any other than 200: its document names it. */
  post(path: string, body: string): Promise<{ status: number; text: string }>;
  /** Opens a Forward stream with its first message; the function that it returns sends a further one. */
  forward(first: Uint8Array, events: ForwardEvents): (message: Uint8Array) => void;
  close(): void;
}

/** Callbacks of a Forward stream. */
export interface ForwardEvents {
  onMessage(message: Uint8Array): void;
  /** Core has ended it; called once at most. */
  onEnd(): void;
}

/** Where a host connects to. */
export interface HostTarget {
  port: number;
  /** Its credentials, read once: to read them costs the driver more than an attempt to connect. */
  secureContext: SecureContext;
  localAddress: string;
}

const managementHeaders: Readonly<Record<string, Buffer>> = Object.fromEntries(
  ["heartbeat", "renew", "config/desired"]
    .map((name) => `/v1/collector/${name}`)
    .map((path) => [path, postHeaders(path, "application/json")]),
);
const forwardHeaders = postHeaders(forwardPath, "application/grpc+proto");
const connectTimeoutMs = 30_000;
const messageBytesMax = 65_536;

interface Waiting {
  isOk: boolean;
  chunks: Buffer[];
  resolve(response: { status: number; text: string }): void;
  reject(error: Error): void;
}

/** Connects; resolves once core has answered on the connection. `onClose` is called once when it ends after that. */
export const connectHost = (
  target: HostTarget,
  resume: ResumeTls,
  onClose: () => void,
): Promise<HostConnection> =>
  new Promise((resolve, reject) => {
    // The types leave out the options of the socket.
    const settings: ConnectionOptions & NetConnectOpts = {
      host: "127.0.0.1",
      servername: "localhost",
      ALPNProtocols: ["h2"],
      noDelay: true,
      ...target,
    };
    const socket = resume((session) => connect({ ...settings, ...session }));
    const waiting = new Map<number, Waiting>();
    let isOpen = false;
    let nextStream = 1;
    let forwarding: ForwardEvents | undefined;
    const messages = createGrpcMessageReader(
      messageBytesMax,
      unpooled,
      () => new Error("a message is too large"),
    );
    let failure = new Error("closed");
    const timeout = setTimeout(() => socket.destroy(new Error("timeout")), connectTimeoutMs);

    const send = (headers: Uint8Array, body: Uint8Array, keepsOpen: boolean): number => {
      const stream = nextStream;
      nextStream += 2;
      socket.write(requestFrames(stream, { headers, body, isOpen: keepsOpen }));
      return stream;
    };
    const connection: HostConnection = {
      post: (path, body) => {
        const headers = managementHeaders[path];
        if (headers === undefined || socket.destroyed) return Promise.reject(failure);
        return new Promise((resolveResponse, rejectResponse) => {
          const stream = send(headers, Buffer.from(body), false);
          waiting.set(stream, {
            isOk: false,
            chunks: [],
            resolve: resolveResponse,
            reject: rejectResponse,
          });
        });
      },
      forward: (first, events) => {
        forwarding = events;
        const stream = send(forwardHeaders, frameGrpcMessages([first]), true);
        return (message) => void socket.write(dataFrame(stream, frameGrpcMessages([message])));
      },
      close: () => socket.destroy(),
    };
    const read = createFrameReader({
      reply: (bytes) => void socket.write(bytes),
      onSettings: () => {
        if (isOpen) return;
        isOpen = true;
        clearTimeout(timeout);
        resolve(connection);
      },
      onHeaders: (stream, isOk) => {
        const entry = waiting.get(stream);
        if (entry) entry.isOk = isOk;
      },
      // A copy, because the frame is a view of the socket's buffer.
      onData: (stream, bytes) => {
        const entry = waiting.get(stream);
        if (entry !== undefined) entry.chunks.push(Buffer.from(bytes));
        else
          for (const { data } of messages.push(Uint8Array.from(bytes))) forwarding?.onMessage(data);
      },
      onEnd: (stream, isReset) => {
        const entry = waiting.get(stream);
        waiting.delete(stream);
        if (entry === undefined) {
          forwarding?.onEnd();
          forwarding = undefined;
        } else if (isReset) entry.reject(new Error("reset"));
        else
          entry.resolve({
            status: entry.isOk ? 200 : 0,
            text: Buffer.concat(entry.chunks).toString("utf8"),
          });
      },
      onGoAway: () => socket.destroySoon(),
    });
    socket.once("secureConnect", () => void socket.write(clientPreface));
    socket.on("data", read);
    socket.on("error", (error: Error & { code?: string }) => {
      failure = new Error((error.code ?? error.message).toLowerCase());
    });
    socket.once("close", () => {
      clearTimeout(timeout);
      for (const { reject: rejectResponse } of waiting.values()) rejectResponse(failure);
      waiting.clear();
      if (isOpen) onClose();
      else reject(failure);
    });
  });
