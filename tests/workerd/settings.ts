import type { Peer } from "../../functions/http/request.ts";
import type { Environment } from "../../functions/kit/env.ts";
import type { LogLine } from "../fakes/log.ts";

/** What a test core tells the worker along with a request: its own configuration, database and clock, and who calls. */
export interface WorkerTestSettings {
  env: Environment;
  now: number;
  remoteAddress: string;
  certificate: string | null;
  listener: Peer["listener"];
}

/** The header that carries the settings, base64 of JSON. The worker takes it off before the app sees the request. */
export const settingsHeader = "x-test-settings";

/** `GET` of this path with the id of an answer's `logHeader` gives the log lines of that request, once. */
export const logPath = "/test-log/";
export const logHeader = "x-test-log";

/** A log line as it crosses: errors and secrets as text. */
export type SentLogLine = Pick<LogLine, "level" | "message"> & { fields: string };

export const encodeSettings = (settings: WorkerTestSettings): string =>
  new TextEncoder().encode(JSON.stringify(settings)).toBase64();

export const decodeSettings = (text: string): WorkerTestSettings =>
  JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(text)));
