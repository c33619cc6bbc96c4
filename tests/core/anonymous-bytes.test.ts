import { writeFileSync } from "node:fs";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { formBytesMax } from "#kit/form.ts";
import { decodePem } from "#proto/pem.ts";
import { workloadEnvironment } from "#scripts/lab/core-environment.ts";
import { cpuMillisecondsOf } from "../support/cpu-time.ts";
import { useTestWeb } from "../support/web.ts";

/*
 * Hostile bytes of somebody without credentials, to every parser that reads them before core or web knows the caller. Each takes the
 * program less than 10 ms: the size of a text is that of the limit before the parser, else 1 MiB and 16 MiB.
 */
const certificateHeader = "x-client-certificate";
const web = await useTestWeb({
  core: { env: { ...workloadEnvironment, SVC_ENROLLMENT_CLIENT_CERT_HEADER: certificateHeader } },
});
const runs = Number(process.env.SVC_FUZZ_RUNS ?? 20);
const seed = Number(process.env.SVC_FUZZ_SEED ?? 20_261_123);
const reportFile = process.env.SVC_FUZZ_REPORT;
const answers: Record<string, Record<string, number>> = {};
afterAll(async () => {
  if (reportFile !== undefined) writeFileSync(`${reportFile}.web`, JSON.stringify(answers));
});

const mebibyte = 1024 * 1024;
/** The listener's limit of the request line and the headers, less the rest of them. */
const headBytes = 31_000;
const queryBytes = 8_190;
const cpuMsMax = 10;

/** What is repeated: separators without and with names, escapes that are valid, cut off, or of no UTF-8, and openings. */
const units = [
  "a&",
  "a=&",
  "&",
  "=",
  "%",
  "%&",
  "%41",
  "%ff",
  "%ffa",
  "%zz",
  "+&",
  "a;",
  "; ",
  "a=b; ",
  "a,",
  '"',
  "[",
  "{",
  "\\",
  "/",
  "/a",
  "/..",
  ".",
  "..",
  "a.",
  "-",
  "-----",
  "\t",
  "A",
  "eyJ.",
  "--a\r\n",
  "svc_sign_in_abcdefgh=a; ",
];
const fill = (unit: string, bytes: number) =>
  unit.repeat(Math.ceil(bytes / unit.length)).slice(0, bytes);

type Send = (text: string) => Response | Promise<Response>;
const toWeb = (path: string, init?: RequestInit) =>
  web.app.request(new Request(`${web.origin}${path}`, init));
const toCore = (path: string, init?: RequestInit) =>
  web.core.fetch(new Request(`http://core.test${path}`, init));
/** Sends a text behind the start of a path. */
const inPath =
  (to: typeof toWeb, start: string, headers: Record<string, string> = {}): Send =>
  (text) =>
    to(start + text, { headers });
/** Sends a text in a header, behind its start and without what no header may contain. */
const inHeader =
  (to: typeof toWeb, path: string, name: string, start = "", init: RequestInit = {}): Send =>
  (text) => {
    const value = start + text.replaceAll(/[\r\n]/g, "x").trim();
    return to(path, { ...init, headers: { ...Object(init.headers), [name]: value } });
  };

const form = "application/x-www-form-urlencoded";
const posted = (
  type: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
) => ({
  method: "POST",
  body,
  headers: { "Content-Type": type, Origin: web.origin, ...headers },
});
const postedJson = posted("application/json", "{}");

/** Returns the slowest text with its time, if one takes too long. */
const findSlow = async (bytes: number, send: Send, of: readonly string[] = units) => {
  const slow: string[] = [];
  for (const unit of of) {
    const text = fill(unit, bytes);
    const ms = await cpuMillisecondsOf(cpuMsMax, async () => {
      const { status } = await send(text);
      if (status >= 500 && status !== 503) slow.push(`${JSON.stringify(unit)}: status ${status}`);
    });
    if (ms >= cpuMsMax) slow.push(`${JSON.stringify(unit)}: ${ms.toFixed(1)} ms`);
  }
  return slow;
};

const formPaths: Readonly<Record<string, readonly [to: typeof toWeb, path: string]>> = {
  "web's token endpoint": [toWeb, "/oauth/token"],
  "web's device authorization": [toWeb, "/oauth/device_authorization"],
  "web's consent": [toWeb, "/cli/authorize"],
  "web's device page": [toWeb, "/device"],
  "web's sign-out": [toWeb, "/api/auth/logout"],
  "web's logout tokens": [toWeb, "/api/auth/backchannel-logout"],
  "web's gateway to the exchange": [toWeb, "/v1/operator/token-exchange"],
  "core's exchange": [toCore, "/v1/operator/token-exchange"],
};

describe("N1: hostile bytes without credentials take less than 10 ms", () => {
  it.each(Object.entries(formPaths))(
    "as a form, JSON or multipart to %s, of 16 KiB, 1 MiB and 16 MiB",
    async (_, [to, path]) => {
      expect(await findSlow(formBytesMax, (text) => to(path, posted(form, text)))).toEqual([]);
      for (const type of ["application/json", "multipart/form-data; boundary=a"]) {
        const send: Send = (text) => to(path, posted(type, text));
        expect(await findSlow(formBytesMax, send, ["a&", "[", "--a\r\n"])).toEqual([]);
      }
      for (const bytes of [mebibyte, 16 * mebibyte]) {
        const init = posted(form, new TextEncoder().encode(fill("a&", bytes)), {
          "Content-Length": String(bytes),
        });
        const program = to === toWeb ? web.app.request : web.core.fetch;
        const send = async (request: Request) =>
          expect((await program(request)).status).toBeLessThan(500);
        // Making a request, which copies its body, does not count.
        const make = () => new Request(new URL(path, web.origin), init);
        expect(await cpuMillisecondsOf(cpuMsMax, send, make)).toBeLessThan(cpuMsMax);
      }
    },
  );

  const heartbeatPath = "/v1/collector/heartbeat";
  const exchangePath = "/v1/operator/token-exchange";
  const openApiPath = "/v1/openapi.json";
  it.each<[string, number, Send]>([
    ["path of web", headBytes, inPath(toWeb, "/")],
    ["path of web's API", headBytes, inPath(toWeb, "/v1/")],
    ["path of core", headBytes, inPath(toCore, "/v1/")],
    ["query of web's application", queryBytes, inPath(toWeb, "/?", { Accept: "text/html" })],
    ["query of web's sign-in page", queryBytes, inPath(toWeb, "/login?")],
    ["query of web's sign-in", queryBytes, inPath(toWeb, "/api/auth/login?")],
    ["query of web's callback", queryBytes, inPath(toWeb, "/api/auth/callback/idp?")],
    ["query of web's consent", queryBytes, inPath(toWeb, "/cli/authorize?redirect_uri=")],
    ["query of web's device page", queryBytes, inPath(toWeb, "/device?user_code=")],
    ["long query of web", headBytes, inPath(toWeb, "/login?")],
    ["query of core", headBytes, inPath(toCore, "/v1/audit-events?")],
    ["cookies of a session", headBytes, inHeader(toWeb, "/api/session", "Cookie")],
    ["cookies of a sign-in", headBytes, inHeader(toWeb, "/api/auth/login", "Cookie")],
    ["bearer of web", headBytes, inHeader(toWeb, "/v1/whoami", "Authorization", "Bearer ")],
    ["bearer of core", 4_096, inHeader(toCore, "/v1/whoami", "Authorization", "Bearer ")],
    ["ops bearer", headBytes, inHeader(toCore, "/metrics", "Authorization", "Bearer ")],
    [
      "bootstrap token",
      headBytes,
      inHeader(toCore, "/v1/collector/enroll", "Authorization", "Bearer ", postedJson),
    ],
    [
      "client certificate",
      16_384,
      inHeader(toCore, heartbeatPath, certificateHeader, "", postedJson),
    ],
    ["media type", headBytes, inHeader(toCore, exchangePath, "Content-Type", "", postedJson)],
    [
      "media type of web",
      headBytes,
      inHeader(toWeb, "/oauth/token", "Content-Type", "", posted(form, "a=b")),
    ],
    [
      "content coding",
      headBytes,
      inHeader(toCore, exchangePath, "Content-Encoding", "", posted(form, "a=b")),
    ],
    ["accepted types", headBytes, inHeader(toWeb, "/", "Accept")],
    ["entity tags", headBytes, inHeader(toCore, openApiPath, "If-None-Match")],
    ["trace id", headBytes, inHeader(toCore, openApiPath, "traceparent")],
    ["request id", headBytes, inHeader(toCore, openApiPath, "X-Request-Id")],
    ["accepted codings of an asset", headBytes, inHeader(toWeb, "/favicon.svg", "Accept-Encoding")],
  ])("as the %s", async (_, bytes, send) => {
    expect(await findSlow(bytes, send)).toEqual([]);
  });

  it.each(["subject_token", "code"])("as the %s of a form", async (name) => {
    const path = name === "code" ? "/oauth/token" : "/v1/operator/token-exchange";
    const grant = {
      grant_type:
        name === "code" ? "authorization_code" : "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    };
    const send: Send = (text) => {
      const content = new URLSearchParams({ ...grant, [name]: text }).toString();
      return toWeb(path, posted(form, content.slice(0, formBytesMax)));
    };
    expect(await findSlow(formBytesMax / 3, send)).toEqual([]);
  });

  const many = (length: number, byteAt: (at: number) => number) =>
    Array.from({ length }, (_, at) => byteAt(at));
  const sequence = (...content: number[]) => element(0x30, content);
  it.each<[string, (bytes: number) => number[]]>([
    [
      "sequences in sequences",
      (bytes) => many(bytes / 4, (at) => bytes - 4 * at - 4).flatMap(sequenceHead),
    ],
    [
      "sequences without a length",
      (bytes) => sequence(...many(bytes - 4, (at) => (at % 2 ? 0x80 : 0x30))),
    ],
    [
      "a long object identifier",
      (bytes) =>
        sequence(
          ...element(
            0x06,
            many(bytes - 8, () => 0xff),
          ),
        ),
    ],
    [
      "a long integer",
      (bytes) =>
        sequence(
          ...sequence(
            ...element(
              0x02,
              many(bytes - 12, () => 0x7f),
            ),
          ),
        ),
    ],
    ["many small elements", (bytes) => sequence(...many(bytes - 4, (at) => (at % 2 ? 0 : 0x05)))],
  ])("as a client certificate of %s", async (_, derOf) => {
    const pem = `-----BEGIN CERTIFICATE-----\n${Buffer.from(derOf(11_000)).toString("base64")}\n-----END CERTIFICATE-----\n`;
    const headers = { [certificateHeader]: encodeURIComponent(pem) };
    const send = () => toCore("/v1/collector/heartbeat", posted("application/json", "{}", headers));
    expect((await send()).status).toBeLessThan(500);
    expect(await cpuMillisecondsOf(cpuMsMax, send)).toBeLessThan(cpuMsMax);
  });

  it("as PEM", async () => {
    const slow: string[] = [];
    for (const unit of [
      ...units,
      "-----BEGIN CERTIFICATE-----\n",
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ]) {
      const text = fill(unit, mebibyte);
      const ms = await cpuMillisecondsOf(cpuMsMax, () => decodePem(text, "CERTIFICATE"));
      if (ms >= cpuMsMax) slow.push(`${JSON.stringify(unit)}: ${ms}`);
    }
    expect(slow).toEqual([]);
  });
});

/** A body of which nothing arrives; `read` resolves with null once somebody reads it. */
const createStalledBody = () => {
  const { promise: read, resolve } = Promise.withResolvers<null>();
  const pull = () => {
    resolve(null);
    return new Promise<void>(() => undefined);
  };
  return { read, body: new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 }) };
};

describe("N2: a caller without valid credentials is refused before the body is read", () => {
  const credentials: readonly Record<string, string>[] = [
    {},
    { Authorization: "Bearer x" },
    { Authorization: `Bearer ${"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30."}${"A".repeat(43)}` },
    { Authorization: `Bearer svcb_${"a".repeat(50)}`, Cookie: "svc_session=a" },
  ];
  /** Returns the routes that read the body of a caller with one of these credentials. */
  const findReaders = async (
    to: typeof toWeb,
    routes: readonly { method: string; path: string }[],
  ) => {
    const readers: string[] = [];
    for (const { method, path } of routes)
      for (const headers of credentials) {
        const { read, body } = createStalledBody();
        const url = path
          .replace(/:[a-z_]+(\{[^}]*\}+)?/g, "01920000-0000-7000-8000-0000000000ff")
          .replace("*", "collector/configs");
        // The types of the DOM omit `duplex`, which undici requires.
        const init = {
          method,
          body,
          duplex: "half",
          headers: { "Content-Type": form, Origin: web.origin, ...headers },
        };
        if ((await Promise.race([to(url, init), read])) === null) readers.push(`${method} ${path}`);
      }
    return [...new Set(readers)].sort();
  };
  const writing = ({ method }: { method: string }) =>
    ["POST", "PUT", "PATCH", "DELETE"].includes(method);

  it("by core, except for the token in the form of a workload", async () => {
    expect(await findReaders(toCore, web.core.routes.filter(writing))).toEqual([
      "POST /v1/operator/token-exchange",
    ]);
  });

  it("by web, except for what the forms of programs and of the identity provider hold", async () => {
    // Past the limits of an address.
    await web.clock.advance(60_000);
    const routes = web.app.routes.filter(writing);
    const gateway = [
      { method: "POST", path: "/v1/*" },
      { method: "PUT", path: "/v1/*" },
      { method: "POST", path: "/scim/v2/Users" },
      { method: "POST", path: "/v1/operator/token-exchange" },
    ];
    expect(await findReaders(toWeb, [...routes, ...gateway])).toEqual([
      "POST /api/auth/backchannel-logout",
      "POST /oauth/device_authorization",
      "POST /oauth/token",
      "POST /v1/operator/token-exchange",
    ]);
  });
});

/** Names and values that the parsers know, among others. */
const names = fc.oneof(
  fc.constantFrom(
    "grant_type",
    "code",
    "device_code",
    "client_name",
    "user_code",
    "decision",
    "redirect_uri",
    "__proto__",
  ),
  fc.string({ maxLength: 8 }),
);
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";
const values = fc.oneof(
  fc.constantFrom("authorization_code", deviceGrant, "allow", "", "%", "%ff", "\0", "[]"),
  fc.string({ unit: "binary", maxLength: 64 }).map((text) => text.toWellFormed()),
);
const fieldsOfForm = fc.array(fc.tuple(names, values), { maxLength: 6 });
const formTexts = fc.oneof(
  fieldsOfForm.map((fields) =>
    new URLSearchParams(fields.map(([name, value]) => [name.toWellFormed(), value])).toString(),
  ),
  fieldsOfForm.map((fields) => fields.map(([name, value]) => `${name}=${value}`).join("&")),
  fc.constantFrom(...units).map((unit) => fill(unit, formBytesMax)),
);
const multipartTexts = fieldsOfForm.map((fields) =>
  fields
    .map(([name, value]) => `--a\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}`)
    .join("\r\n"),
);
const typed = (type: string, texts: fc.Arbitrary<string>) =>
  texts.map((text) => [type, text] as const);
const contents = fc.oneof(
  { weight: 4, arbitrary: typed(form, formTexts) },
  { weight: 1, arbitrary: typed("multipart/form-data; boundary=a", multipartTexts) },
  { weight: 1, arbitrary: typed("application/json", formTexts) },
);
const cookieNames = fc.constantFrom("svc_session", "svc_sign_in_abcdefgh", "a");
const cookies = fc
  .array(fc.tuple(cookieNames, values), { maxLength: 4 })
  .map((pairs) => pairs.map(([name, value]) => `${name}=${value}`).join("; "));
/** What a header may hold. */
const toHeader = (text: string) => text.replaceAll(/[^\t\x20-\x7e]/g, "?");

it.each(Object.entries(formPaths))(
  "any form, multipart body and cookie gets a refusal, and causes no failure %s",
  async (name, [to, path]) => {
    const counts: Record<string, number> = {};
    answers[name] = counts;
    const property = fc.asyncProperty(contents, cookies, async ([type, text], cookie) => {
      const init = posted(type, new TextEncoder().encode(text), { Cookie: toHeader(cookie) });
      const { status } = await to(path, init);
      counts[status] = (counts[status] ?? 0) + 1;
      expect(status).toBeLessThan(500);
      // The limit of an address is not what is tested.
      await web.clock.advance(1_000);
    });
    await fc.assert(property, { numRuns: runs, seed, endOnFailure: true });
  },
);

/** An element of DER whose length takes two bytes. */
const headOf = (tag: number, length: number) => [tag, 0x82, length >> 8, length & 0xff];
const element = (tag: number, content: number[]) => [...headOf(tag, content.length), ...content];
const sequenceHead = (length: number) => headOf(0x30, length);
