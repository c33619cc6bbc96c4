import * as v from "valibot";
import { readCidr } from "./address.ts";
import { isConfidentialUrl } from "./confidential-url.ts";
import { DatabaseUrlFault, splitDatabaseUrl } from "./database-url.ts";
import { Secret } from "./secret.ts";

/** Text that is not empty. */
export const TextVariable = v.pipe(v.string(), v.nonEmpty("must not be empty"));

/** The path of a program. */
export const AbsolutePathVariable = v.pipe(
  TextVariable,
  v.startsWith("/", "must be an absolute path"),
);

/** A URL of HTTP. */
export const WebUrlVariable = v.pipe(
  TextVariable,
  v.check(
    (value) => /^https?:\/\//.test(value) && URL.canParse(value),
    "must be an http or https URL",
  ),
);

/** A URL to which a secret may be sent. */
export const ConfidentialUrlVariable = v.pipe(
  TextVariable,
  v.check(isConfidentialUrl, "must be an https:// URL, or an http:// one of loopback"),
);

/** Marks a variable `NAME` whose value, a `Secret`, may come from the file that `NAME_FILE` names, and is read again when that changes. */
export const fileForm = v.metadata<string, { hasFileForm: true }>({ hasFileForm: true });

/** Marks a variable whose file is read at the start alone, with the reason for docs/configuration.md. */
export const readOnce = (reason: string) =>
  v.metadata<string, { readOnce: string }>({ readOnce: reason });

/** A value that prints as `[redacted]`. */
export const SecretVariable = v.pipe(
  TextVariable,
  fileForm,
  v.transform((text) => new Secret(text)),
);

/** Host and port. */
export const AddressVariable = v.pipe(
  TextVariable,
  v.regex(/^(\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}$/, "must be host:port, or [IPv6 address]:port"),
  v.check(
    (value) => URL.canParse(`https://${value}`),
    "must have a valid address, and a port of at most 65535",
  ),
  v.transform((value) => {
    const colon = value.lastIndexOf(":");
    const host = value.slice(0, colon).replace(/^\[|\]$/g, "");
    return { host, port: Number(value.slice(colon + 1)) };
  }),
);

/** The URL of a PostgreSQL server, or of several. */
export const DatabaseUrlVariable = v.pipe(
  TextVariable,
  fileForm,
  v.rawCheck(({ dataset, addIssue }) => {
    try {
      if (dataset.typed) splitDatabaseUrl(dataset.value);
    } catch (fault) {
      addIssue({ message: fault instanceof DatabaseUrlFault ? fault.message : "cannot be read" });
    }
  }),
  v.transform((text) => new Secret(text)),
);

/** A secret that keys an HMAC: 32 bytes of UTF-8 or more. */
export const HmacKeyVariable = v.pipe(
  TextVariable,
  fileForm,
  readOnce("rotated in steps, with the previous one"),
  v.check((text) => new TextEncoder().encode(text).length >= 32, "must be at least 32 bytes"),
  v.transform((text) => new Secret(text)),
);

const headerPair = /^\s*([\w-]+)\s*=\s*(\S(?:.*\S)?)\s*$/;

const readHeaders = (text: string): Readonly<Record<string, string>> | undefined => {
  const pairs = text.split(",").map((pair) => headerPair.exec(pair));
  try {
    const headers = pairs.map(
      (pair) => [pair?.[1]?.toLowerCase() ?? "", decodeURIComponent(pair?.[2] ?? "")] as const,
    );
    if (headers.some(([name, value]) => name === "" || /\p{Cc}/u.test(value))) return undefined;
    return Object.fromEntries(headers);
  } catch {
    return undefined;
  }
};

/**
 * Headers of requests, as OTEL_EXPORTER_OTLP_HEADERS has them: `name=value`, several separated by commas, where `%2C` stands for a comma
 * in a value. Names are in lower case.
 */
export const HeadersVariable = v.pipe(
  TextVariable,
  fileForm,
  v.check(
    (text) => readHeaders(text) !== undefined,
    "must be name=value, several separated by commas, with %2C for a comma in a value",
  ),
  v.transform((text) => new Secret(readHeaders(text) ?? {})),
);

/** A UUID, in lower case. */
export const UuidVariable = v.pipe(TextVariable, v.uuid("must be a UUID"), v.toLowerCase());

/** An address or host name that a listener binds to. */
export const HostVariable = v.pipe(
  TextVariable,
  v.regex(/^[0-9A-Za-z:.-]{1,253}$/, "must be an address or a host name, for example 127.0.0.1"),
);

/** Networks in CIDR notation or single addresses, separated by commas. Rejects a network of all addresses. */
export const NetworksVariable = v.pipe(
  TextVariable,
  v.transform((text) =>
    text
      .split(",")
      .map((entry) => entry.trim())
      .map((entry) => (entry.includes("/") ? entry : `${entry}/${entry.includes(":") ? 128 : 32}`)),
  ),
  v.check(
    (networks) => networks.every((text) => (readCidr(text)?.bits ?? 0) > 0),
    "must be CIDRs, separated by commas, for example 10.0.0.0/8",
  ),
);

/** The lowest level that a program logs. */
export const LogLevelVariable = v.picklist(
  ["debug", "info", "warn", "error"],
  "must be debug, info, warn or error",
);

/** `true` or `false`, nothing else. */
export const BooleanVariable = v.pipe(
  v.string(),
  v.check((text) => text === "true" || text === "false", "must be true or false"),
  v.transform((text) => text === "true"),
);

/** Integer within bounds. */
export const IntegerVariable = (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  v.pipe(
    v.string(),
    v.check((text) => /^\d{1,16}$/.test(text), "must be a whole number"),
    v.transform(Number),
    v.check((value) => value >= min && value <= max, `must be between ${min} and ${max}`),
  );

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** A duration: an integer followed by s, m, h or d. Its output is in seconds. */
export const DurationVariable = (minSeconds = 1, maxSeconds = Number.POSITIVE_INFINITY) =>
  v.pipe(
    v.string(),
    v.check(
      (text) => /^\d{1,9}[smhd]$/.test(text),
      "must be a whole number followed by s, m, h or d, for example 30m",
    ),
    v.transform((text) => Number(text.slice(0, -1)) * (unitSeconds[text.slice(-1)] ?? 1)),
    v.check((seconds) => seconds >= minSeconds, `must be at least ${minSeconds}s`),
    v.check((seconds) => seconds <= maxSeconds, `must be at most ${maxSeconds}s`),
  );
