import type { Peer } from "#functions/http/request.ts";
import type { IssuedCertificate, SigningRequest } from "#functions/signer/signer.ts";
import type { Environment } from "#kit/env.ts";
import type { LogLine } from "../fakes/log.ts";
import type { Observation } from "../fakes/observer.ts";

/** The settings that a test core sends to the worker with a request: configuration, database, clock and caller. */
export interface WorkerTestSettings {
  env: Environment;
  now: number;
  remoteAddress: string;
  certificate: string | null;
  listener: Peer["listener"];
  /** Where the test serves a signer of its own; null for the worker's. */
  signerUrl: string | null;
}

/** The header with the settings, base64 of JSON. */
export const settingsHeader = "x-test-settings";

/** The log lines and observations of a request. Fields of log lines are text, which keeps errors and secrets as printed. */
export interface Trace {
  lines: (Pick<LogLine, "level" | "message"> & { fields: string })[];
  observations: Observation[];
}

/** What core answered in the worker, beside the body. */
interface Head {
  status: number;
  headers: [name: string, value: string][];
  trace: Trace;
}

/** Encodes an answer as one body: the length of its head, the head as JSON, the body of core. Another request for the trace would take as long. */
export const encodeAnswer = (head: Head, body: ArrayBuffer): Blob => {
  const json = new TextEncoder().encode(JSON.stringify(head));
  return new Blob([Uint32Array.of(json.length), json, body]);
};

export const decodeAnswer = (answer: ArrayBuffer): Head & { body: ArrayBuffer } => {
  const [length = 0] = new Uint32Array(answer, 0, 1);
  const head: Head = JSON.parse(new TextDecoder().decode(answer.slice(4, 4 + length)));
  return { ...head, body: answer.slice(4 + length) };
};

export const encodeSettings = (settings: WorkerTestSettings): string =>
  new TextEncoder().encode(JSON.stringify(settings)).toBase64();

export const decodeSettings = (text: string): WorkerTestSettings =>
  JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(text)));

/** The response of a test's signer. */
export type SigningAnswer =
  | { issued: IssuedCertificate }
  | { fault: string; isSignerFault: boolean };

export const encodeSigningRequest = (request: SigningRequest): string =>
  JSON.stringify({ ...request, spki: request.spki.toBase64(), serial: request.serial.toBase64() });

export const decodeSigningRequest = (text: string): SigningRequest => {
  const { spki, serial, ...request } = JSON.parse(text);
  return { ...request, spki: Uint8Array.fromBase64(spki), serial: Uint8Array.fromBase64(serial) };
};
