import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { Secret } from "#kit/secret.ts";
import { fileForm } from "#kit/variables.ts";
import { secretYaml } from "./parse-yaml.ts";

const url = v.pipe(
  v.string("must be a URL"),
  v.check(
    (text) => /^https?:\/\//.test(text) && URL.canParse(text),
    "must be an http:// or https:// URL",
  ),
  v.check((text) => {
    const { username = "", password = "" } = URL.parse(text) ?? {};
    return username === "" && password === "" && !text.includes("#");
  }, "must hold no user or fragment"),
);
/** A URL to which paths are added. */
const baseUrl = v.pipe(
  url,
  v.transform((text) => text.replace(/\/$/, "")),
);
const name = v.pipe(
  v.string("must be text"),
  v.regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    "must be 1 to 64 letters, digits, dots, hyphens and underscores",
  ),
);

/** Standard Webhooks: `whsec_` and 24 to 64 bytes in base64. */
const secret = v.pipe(
  v.string("must be a secret"),
  v.check((text) => {
    const bytes = keyLength(text);
    return bytes >= 24 && bytes <= 64;
  }, "must be whsec_ and 24 to 64 bytes in base64"),
  v.transform((text) => new Secret(text)),
);

const keyLength = (text: string) => {
  try {
    return text.startsWith("whsec_")
      ? Uint8Array.fromBase64(text.slice("whsec_".length)).length
      : 0;
  } catch {
    return 0;
  }
};

const common = { name, allow_private: v.optional(v.boolean("must be true or false"), false) };

const Receiver = v.pipe(
  v.variant(
    "kind",
    [
      v.strictObject({
        kind: v.literal("webhook"),
        ...common,
        url,
        secret,
        previous_secret: v.optional(secret),
      }),
      v.strictObject({
        kind: v.literal("alertmanager"),
        ...common,
        url: baseUrl,
        bearer_token: v.optional(
          v.pipe(
            v.string("must be text"),
            v.regex(/^[\x21-\x7e]{1,4096}$/, "must be printable ASCII without spaces"),
            v.transform((text) => new Secret(text)),
          ),
        ),
        labels: v.optional(
          v.record(
            v.pipe(v.string(), v.regex(/^[A-Za-z_]\w*$/, "must be a label's name")),
            v.string("must be text"),
          ),
          {},
        ),
      }),
    ],
    "must be webhook or alertmanager",
  ),
  v.check(
    (receiver) => receiver.allow_private || receiver.url.startsWith("https:"),
    "must have an https:// URL, or allow_private: http goes to private addresses only",
  ),
  v.check(
    (receiver) =>
      !("bearer_token" in receiver && receiver.bearer_token) || isConfidentialUrl(receiver.url),
    "must have an https:// URL, or http:// of loopback, for its bearer_token",
  ),
  v.transform((receiver) => ({
    name: receiver.name,
    url: receiver.url,
    /** May also be a loopback, private or link-local address; only these may use `http`. */
    allowPrivate: receiver.allow_private,
    target:
      receiver.kind === "webhook"
        ? {
            kind: receiver.kind,
            secrets: [receiver.secret, receiver.previous_secret].filter(
              (each) => each !== undefined,
            ),
          }
        : {
            kind: receiver.kind,
            bearerToken: receiver.bearer_token ?? null,
            labels: receiver.labels,
          },
  })),
);

/** Where the messages of watches go (docs/watches.md). */
export type WatchReceiver = v.InferOutput<typeof Receiver>;

const ReceiversFile = v.pipe(
  v.strictObject({
    web_url: baseUrl,
    receivers: v.pipe(
      v.array(Receiver, "must be a list of receivers"),
      v.check(
        (all) => new Set(all.map((each) => each.name)).size === all.length,
        "names one receiver twice",
      ),
    ),
  }),
  v.transform(({ web_url: webUrl, receivers }) => ({ webUrl, receivers })),
);

/** The receivers, and the public URL of web, which messages link to. */
export type WatchConfig = v.InferOutput<typeof ReceiversFile>;

/** The receivers as YAML. */
const ReceiversVariable = v.pipe(v.string(), fileForm, secretYaml(ReceiversFile));

/** One schema per variable of watches. */
export const watchVariables = {
  /**
   * where the messages of watches go, as YAML with their secrets ([watches.md](watches.md#receivers));
   * unset: nowhere
   */
  SVC_WATCH_RECEIVERS: v.optional(ReceiversVariable),
};
