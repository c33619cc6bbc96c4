import { AwsV4Signer } from "aws4fetch";
import { fullJitterMs } from "#kit/backoff.ts";
import { readBytes } from "#kit/bytes.ts";
import { type Clock, callAfter, TimedOut } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Entropy } from "#kit/entropy.ts";
import { readRetryAfter } from "#kit/retry-after.ts";
import { ObjectStoreUnavailable } from "./object-store.ts";

/** An attempt ends after so long. */
export const attemptMs = 20_000;
const callMsMax = 60_000;
const backoff = { baseMs: 100, capMs: 5_000 };
/** The largest document: a listing of 1,000 names. */
const documentBytesMax = 4 * 1024 * 1024;

/** A key that signs requests. */
export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** Where the key comes from, which changes while core runs. */
export interface S3CredentialSource {
  /** Returns the newest key. Throws `ObjectStoreUnavailable`. */
  current(): Promise<S3Credentials>;
  /** Notes that the store rejects this key. */
  reject(credentials: S3Credentials): void;
}

/** A bucket and the prefix of its keys. */
export interface S3Place {
  /** Ends with `/`. */
  bucketUrl: string;
  /** Empty, or ends with `/`. */
  prefix: string;
  region: string;
}

/** An HTTP request of a store. */
export interface HttpRequest {
  method: "GET" | "PUT" | "POST" | "DELETE";
  url: string;
  headers: Readonly<Record<string, string>>;
  /** Parts that follow each other. */
  body?: readonly Uint8Array[] | undefined;
  signal: AbortSignal;
}

/** Sends a request, and follows no redirect. Rejects without a response. */
export type SendHttp = (request: HttpRequest) => Promise<{
  status: number;
  header(name: string): string | undefined;
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}>;

/** What a store of S3 uses. */
export interface S3Needs {
  send: SendHttp;
  credentials: S3CredentialSource;
  clock: Clock;
  entropy: Entropy;
  /** Returns the SHA-256 of parts that follow each other, in hex. */
  hash(parts: readonly Uint8Array[]): string;
  /** A call fails after so long, with all its attempts. */
  callMs?: number | undefined;
}

/**
 * Sends a request, and returns its response with the body, which is null if it is larger than `bytesMax`. Throws `TimedOut` when that takes
 * longer than an attempt may.
 */
export const exchange = async (
  { send, clock }: Pick<S3Needs, "send" | "clock">,
  request: Omit<HttpRequest, "signal"> & { bytesMax?: number },
  signal?: AbortSignal,
) => {
  const { bytesMax = documentBytesMax, method, url, headers, body } = request;
  const late = new AbortController();
  const cancel = callAfter(clock, attemptMs, () => late.abort(new TimedOut("no response in time")));
  try {
    const response = await send({
      method,
      url,
      headers,
      body,
      signal: AbortSignal.any(signal ? [late.signal, signal] : [late.signal]),
    });
    const { status, header } = response;
    return { status, header, bytes: await readBytes(response.body, bytesMax) };
  } finally {
    cancel();
  }
};

interface S3Request extends Pick<HttpRequest, "method" | "body"> {
  /** Empty for the bucket itself. */
  key: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  /** The largest body of a response. */
  bytesMax?: number;
  /** The codes of errors that the caller handles. */
  expects?: readonly string[];
}

/** A response of S3. */
export interface S3Response {
  /** 0 without a response. */
  status: number;
  /** The code of an error, or the reason for having no response; empty after success. */
  error: string;
  bytes: Uint8Array;
  header(name: string): string | undefined;
}

const keyErrors = [
  "ExpiredToken",
  "InvalidAccessKeyId",
  "InvalidToken",
  "SignatureDoesNotMatch",
  "TokenRefreshRequired",
];
const passingErrors = ["ConditionalRequestConflict", "OperationAborted", "RequestTimeout"];

const isPassing = ({ status, error }: S3Response) =>
  status === 0 ||
  status === 429 ||
  (status >= 500 && status !== 501) ||
  passingErrors.includes(error);

/**
 * Creates the function that sends signed requests. It repeats those that fail for now, with backoff, and once those that fail by the clock or the
 * key. Returns a success or an expected error, and throws `ObjectStoreUnavailable` for any other.
 */
export const createS3Caller = (place: S3Place, needs: S3Needs) => {
  const { send, credentials, clock, entropy, callMs = callMsMax } = needs;
  /** How far the store's clock is ahead of this machine's. */
  let aheadMs = 0;

  const sign = (request: S3Request, key: S3Credentials) => {
    const url = new URL(request.key, place.bucketUrl);
    url.search = new URLSearchParams(request.query).toString();
    const { method, headers = {} } = request;
    const datetime = new Date(clock.now() + aheadMs).toISOString().replace(/[:-]|\.\d{3}/g, "");
    const { region } = place;
    const about = { method, url: url.href, headers, service: "s3", region, datetime };
    return new AwsV4Signer({ ...about, ...key }).sign();
  };

  const attempt = async (
    request: S3Request,
    key: S3Credentials,
    signal: AbortSignal | undefined,
  ): Promise<S3Response> => {
    const { url, headers } = await sign(request, key);
    const sent = { ...request, url: url.href, headers: Object.fromEntries(headers) };
    try {
      const { bytes, ...head } = await exchange({ send, clock }, sent, signal);
      return { ...head, ...readResult(head.status, bytes) };
    } catch (cause) {
      return {
        status: 0,
        error: reasonOf(cause),
        bytes: new Uint8Array(),
        header: () => undefined,
      };
    }
  };

  /** Reports whether the request may succeed after what its failure has revealed. */
  const learnsFrom = ({ error, header }: S3Response, key: S3Credentials): boolean => {
    if (keyErrors.includes(error)) {
      credentials.reject(key);
      return true;
    }
    const date = Date.parse(header("date") ?? "");
    if (error !== "RequestTimeTooSkewed" || Number.isNaN(date)) return false;
    aheadMs = date - clock.now();
    return true;
  };

  const pauseMs = ({ header }: S3Response, failures: number) => {
    const demanded = readRetryAfter(header("retry-after"), clock.now(), callMs);
    return Math.max(demanded ?? 0, fullJitterMs({ attempt: failures, ...backoff, entropy }));
  };

  return async (request: S3Request, signal?: AbortSignal): Promise<S3Response> => {
    const until = clock.monotonic() + callMs;
    let hasLearned = false;
    for (let failures = 0; ; failures++) {
      const key = await credentials.current();
      const response = await attempt(request, key, signal);
      if (response.error === "" || request.expects?.includes(response.error)) return response;
      signal?.throwIfAborted();
      if (isPassing(response)) {
        const waitMs = pauseMs(response, failures);
        if (clock.monotonic() + waitMs > until) throw unavailable(request, response);
        await clock.sleep(waitMs, signal);
      } else if (!hasLearned && learnsFrom(response, key)) hasLearned = true;
      else throw unavailable(request, response);
    }
  };
};

const readResult = (status: number, bytes: Uint8Array | null) => {
  if (bytes === null) return { error: "a response that is too large", bytes: new Uint8Array() };
  if (status >= 200 && status < 300) return { error: "", bytes };
  const [, code] = /<Code>(\w{1,64})<\/Code>/.exec(new TextDecoder().decode(bytes)) ?? [];
  return { error: code ?? "no error of S3", bytes };
};

const reasonOf = (cause: unknown) => {
  if (cause instanceof TimedOut) return cause.message;
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause;
  return `no response (${errorCode(inner) ?? "connection lost"})`;
};

const unavailable = ({ method }: S3Request, { status, error }: S3Response) =>
  new ObjectStoreUnavailable(
    `the bucket fails ${method}: ${status === 0 ? error : `HTTP ${status}, ${error}`}`,
  );
