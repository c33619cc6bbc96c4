import { createHash, createHmac } from "node:crypto";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { SendHttp } from "#functions/objects/s3-calls.ts";
import { concatBytes, readBytes } from "#kit/bytes.ts";
import { listenOnLoopback } from "#scripts/ports.ts";

/** An error of S3. */
interface S3Error {
  status: number;
  code: string;
  headers?: Record<string, string>;
}

/** What a request meets instead of a response; with `lost-response` it takes effect, with `half` a half of its object is stored. */
export type S3Fault = S3Error | "lost-request" | "lost-response" | "half" | "hangs";

interface ModelRequest {
  method: string;
  /** Path and query. */
  target: string;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: Uint8Array;
}

interface ModelResponse {
  status: number;
  headers: Record<string, string>;
  body: Uint8Array;
}

const skewMsMax = 15 * 60_000;
const bucketPath = "/telemetry/";
const textOf = (text: string) => new TextEncoder().encode(text);

/** A model of S3 with the bucket `telemetry`: it verifies every signature, and fails as a test tells it by changing its `state`. */
export const createS3Model = (clock: { now(): number }) => {
  const state = {
    /** Access key ids and their secrets. */
    keys: new Map([["key-1", "secret-1"]]),
    objects: new Map<string, Uint8Array>(),
    /** How far its clock is ahead. */
    aheadMs: 0,
    /** Operations that the key may not do: `PUT`, `GET`, `DELETE`, `LIST`, and those of settings, as `versioning`. */
    denied: new Set<string>(),
    /** The settings of the bucket, each with the elements in its document: as set, or as after creation. */
    settings: new Map<string, string>(),
    /** Settings that the server does not implement. */
    unimplemented: new Set<string>(),
    /** Whether the server knows settings; else it lists objects. */
    hasSettings: true,
    hasBucket: true,
    /** Whether it knows `If-None-Match` of PUT. */
    isConditional: true,
    /** Keys that listings do not show yet. */
    unlisted: new Set<string>(),
    objectHeaders: {} as Record<string, string>,
    /** The most names of a page. */
    pageMax: 1000,
    fault: (_request: { operation: string; key: string }): S3Fault | null => null,
  };

  const act = (request: ModelRequest, operation: string, key: string): ModelResponse => {
    const refusal = signatureFault(request, state.keys, clock.now() + state.aheadMs);
    if (refusal !== null) return errorOf(403, refusal);
    if (!state.hasBucket) return errorOf(404, "NoSuchBucket");
    if (state.denied.has(operation)) return errorOf(403, "AccessDenied");
    if (operation === "LIST") return listing(state, new URL(request.target, "http://s3"));
    const setting = bucketSettings[operation];
    if (setting) return settingOf(state, operation, setting);
    const { objects } = state;
    const headers = headersOfObject(state);
    if (operation === "DELETE") {
      objects.delete(key);
      return { status: 204, headers: {}, body: textOf("") };
    }
    if (operation === "GET") {
      const response = partOf(objects.get(key), String(request.headers.range));
      return { ...response, headers: { ...response.headers, ...headers } };
    }
    const condition = request.headers["if-none-match"];
    if (condition !== undefined && !state.isConditional) return errorOf(501, "NotImplemented");
    if (condition === "*" && objects.has(key)) return errorOf(412, "PreconditionFailed");
    objects.set(key, request.body.slice());
    return { status: 200, headers, body: textOf("") };
  };

  const respond = (request: ModelRequest): ModelResponse | "hangs" | "lost" => {
    const { pathname, searchParams } = new URL(request.target, "http://s3");
    const key = decodeURIComponent(pathname.slice(bucketPath.length));
    const setting = Object.keys(bucketSettings).find((name) => searchParams.has(name));
    const ofBucket = (state.hasSettings && setting) || "LIST";
    const operation = key === "" ? ofBucket : request.method;
    const fault = state.fault({ operation, key });
    if (fault === "hangs") return fault;
    if (fault === "lost-request") return "lost";
    if (typeof fault === "object" && fault !== null) {
      const response = errorOf(fault.status, fault.code);
      return { ...response, headers: { ...response.headers, ...fault.headers } };
    }
    if (fault === "half") {
      state.objects.set(key, request.body.slice(0, request.body.length / 2));
      return "lost";
    }
    const response = act(request, operation, key);
    response.headers.date = new Date(clock.now() + state.aheadMs).toUTCString();
    return fault === "lost-response" ? "lost" : response;
  };

  const send: SendHttp = async ({ url, method, headers, body: parts = [], signal }) => {
    signal.throwIfAborted();
    const { host, pathname, search } = new URL(url);
    const target = `${pathname}${search}`;
    const body = concatBytes(parts);
    const response = respond({ method, target, headers: { host, ...headers }, body });
    if (response === "lost") throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    if (response === "hangs")
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    return {
      status: response.status,
      header: (name) => response.headers[name],
      body: [response.body],
    };
  };

  /** Serves the model on loopback, by HTTPS with a certificate. */
  const listen = async (tls?: { cert: string; key: string }) => {
    const serve: RequestListener = async (request, response) => {
      const { method = "", url: target = "", headers } = request;
      const body = (await readBytes(request, 64 * 1024 * 1024)) ?? textOf("");
      const answer = respond({ method, target, headers, body });
      if (answer === "lost") request.destroy();
      else if (answer !== "hangs")
        response.writeHead(answer.status, answer.headers).end(answer.body);
    };
    const server = tls ? createHttpsServer(tls, serve) : createHttpServer(serve);
    const port = await listenOnLoopback(server);
    return {
      bucketUrl: `${tls ? "https" : "http"}://127.0.0.1:${port}${bucketPath}`,
      close: () => {
        server.closeAllConnections();
        server.close();
      },
    };
  };
  return { state, send, listen };
};

/** What tests change of a model. */
export type S3ModelState = ReturnType<typeof createS3Model>["state"];

/** The document of each setting, and the error of a bucket without it; a bucket that never had versions has an empty document. */
const bucketSettings: Readonly<Record<string, { root: string; absent: string | null }>> = {
  versioning: { root: "VersioningConfiguration", absent: null },
  "object-lock": {
    root: "ObjectLockConfiguration",
    absent: "ObjectLockConfigurationNotFoundError",
  },
  lifecycle: { root: "LifecycleConfiguration", absent: "NoSuchLifecycleConfiguration" },
};

const settingOf = (
  { settings, unimplemented }: S3ModelState,
  name: string,
  { root, absent }: { root: string; absent: string | null },
): ModelResponse => {
  if (unimplemented.has(name)) return errorOf(501, "NotImplemented");
  const elements = settings.get(name);
  if (elements === undefined && absent !== null) return errorOf(404, absent);
  const document = `<${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${elements ?? ""}</${root}>`;
  return { status: 200, headers: {}, body: textOf(document) };
};

/** A bucket with versions names that of each object. */
const headersOfObject = ({ settings, objectHeaders }: S3ModelState): Record<string, string> => ({
  ...(settings.get("versioning")?.includes("Enabled") && { "x-amz-version-id": "version-1" }),
  ...objectHeaders,
});

const errorOf = (status: number, code: string): ModelResponse => ({
  status,
  headers: { "content-type": "application/xml" },
  body: textOf(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`),
});

const partOf = (object: Uint8Array | undefined, range: string): ModelResponse => {
  if (object === undefined) return errorOf(404, "NoSuchKey");
  const [, from = "", to = ""] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  const first = from === "" ? Math.max(0, object.length - Number(to)) : Number(from);
  if (first >= object.length) return errorOf(416, "InvalidRange");
  const end = from === "" ? object.length : Number(to) + 1;
  return { status: 206, headers: {}, body: object.slice(first, end) };
};

const listing = (state: S3ModelState, { searchParams }: URL): ModelResponse => {
  const {
    prefix = "",
    "start-after": after = "",
    "max-keys": max,
  } = Object.fromEntries(searchParams);
  const keys = [...state.objects.keys()]
    .filter((key) => key.startsWith(prefix) && key > after && !state.unlisted.has(key))
    .sort();
  const page = keys.slice(0, Math.min(state.pageMax, Number(max)));
  const contents = page.map(
    (key) =>
      `<Contents><Key>${encodeURIComponent(key)}</Key><Size>${state.objects.get(key)?.length}</Size></Contents>`,
  );
  const body = `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>${page.length < keys.length}</IsTruncated>${contents.join("")}</ListBucketResult>`;
  return { status: 200, headers: {}, body: textOf(body) };
};

const hmac = (key: Uint8Array | string, text: string) =>
  createHmac("sha256", key).update(text).digest();
const sha256Hex = (data: Uint8Array | string) => createHash("sha256").update(data).digest("hex");

const form =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8}\/([^/]+)\/s3\/aws4_request), SignedHeaders=([^,]+), Signature=(\w+)$/;

/** Returns the code of the error of a request that is not signed as SigV4 says; null if it is. */
const signatureFault = (
  { method, target, headers, body }: ModelRequest,
  keys: ReadonlyMap<string, string>,
  now: number,
): string | null => {
  const [, id = "", scope = "", region = "", names = "", signature] =
    form.exec(String(headers.authorization)) ?? [];
  const time = String(headers["x-amz-date"]);
  const at = Date.parse(time.replace(/(....)(..)(..T..)(..)(.*)/, "$1-$2-$3:$4:$5"));
  if (!(Math.abs(at - now) <= skewMsMax)) return "RequestTimeTooSkewed";
  const secret = keys.get(id);
  if (secret === undefined) return "InvalidAccessKeyId";
  const payload = String(headers["x-amz-content-sha256"]);
  if (payload !== "UNSIGNED-PAYLOAD" && payload !== sha256Hex(body))
    return "XAmzContentSHA256Mismatch";
  const [path = "", query = ""] = target.split("?");
  const canonical = [
    method,
    path,
    query.split("&").sort().join("&"),
    ...names.split(";").map((name) => `${name}:${String(headers[name]).trim()}`),
    "",
    names,
    payload,
  ].join("\n");
  const key = [scope.slice(0, 8), region, "s3", "aws4_request"].reduce(
    (last: Uint8Array | string, text) => hmac(last, text),
    `AWS4${secret}`,
  );
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256Hex(canonical)].join("\n");
  return hmac(key, text).toString("hex") === signature ? null : "SignatureDoesNotMatch";
};
