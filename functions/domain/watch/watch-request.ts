import { rfc3339 } from "../../../kit/clock.ts";
import type { Secret } from "../../../kit/secret.ts";
import type { WatchReceiver } from "../../config/watch-config.ts";
import type { MessageRow } from "../../store/watch/messages.ts";

/** A request with a message. */
export interface WatchRequest {
  url: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  allowPrivate: boolean;
}

/** How often Alertmanager is told that a watch still fires; it takes it as ended after four times as long without a word. */
export const repeatMs = 60_000;

/** Returns the request that sends a message to a receiver now. */
export const watchRequest = async (
  receiver: WatchReceiver,
  message: MessageRow,
  now: number,
): Promise<WatchRequest> => {
  const { url, allowPrivate, target } = receiver;
  const common = { "content-type": "application/json", "user-agent": "svc-server" };
  if (target.kind === "webhook") {
    const body = JSON.stringify(message.body);
    const headers = await webhookHeaders(target.secrets, { id: message.id, now, body });
    return { url, allowPrivate, headers: { ...common, ...headers }, body };
  }
  const token = target.bearerToken;
  return {
    url: `${url}/api/v2/alerts`,
    allowPrivate,
    headers: {
      ...common,
      ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
    },
    body: JSON.stringify([alertOf(message, target.labels, now)]),
  };
};

/** The headers of Standard Webhooks, with a signature by each secret, so that a receiver can change its own at any time. */
const webhookHeaders = async (
  secrets: readonly Secret[],
  { id, now, body }: { id: string; now: number; body: string },
): Promise<Record<string, string>> => {
  const timestamp = String(Math.floor(now / 1000));
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signatures = secrets.map(async (secret) => {
    const key = Uint8Array.fromBase64(secret.reveal().slice("whsec_".length));
    const hmac = { name: "HMAC", hash: "SHA-256" };
    const imported = await crypto.subtle.importKey("raw", key, hmac, false, ["sign"]);
    return `v1,${new Uint8Array(await crypto.subtle.sign(hmac.name, imported, signed)).toBase64()}`;
  });
  const signature = (await Promise.all(signatures)).join(" ");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
};

/** An alert of Alertmanager's API, version 2: its labels are its identity. */
const alertOf = (
  { body: { type, timestamp, data } }: MessageRow,
  labels: Readonly<Record<string, string>>,
  now: number,
) => {
  const { watch, count, since, common_factor: factor } = data;
  const endsAt = type === "watch.resolved" ? timestamp : rfc3339(now + 4 * repeatMs);
  const hosts = count === 1 ? "1 host matches" : `${count ?? "no"} hosts match`;
  return {
    labels: {
      ...labels,
      alertname: type === "watch.test" ? "SvcWatchTest" : "SvcWatch",
      watch: watch.name,
      watch_id: watch.id,
    },
    annotations: {
      summary: `${hosts} ${watch.filter || "(every host)"}, more than ${watch.more_than}`,
      ...(factor === null
        ? {}
        : { common_factor: `${factor.kind} ${factor.value}: ${factor.selected} of them` }),
    },
    startsAt: since ?? timestamp,
    endsAt,
    generatorURL: data.url,
  };
};
