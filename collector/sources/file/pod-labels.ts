/*
 * The labels of a node's pods, by the API of Kubernetes. Invariants:
 * - A log waits for them once, for `answerMs` at most, and only while the API answers; then it is read without them.
 * - An answer is bounded, and one that is malformed changes nothing.
 */
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { join } from "node:path";
import * as v from "valibot";
import { type Clock, minuteMs, withTimeout } from "#kit/clock.ts";
import { jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import type { Log } from "#kit/log.ts";
import type { SourceWarning } from "../source.ts";
import { warningOf } from "./warnings.ts";

/** An API of Kubernetes, and the directory with `token` and `ca.crt` for it. */
export interface KubernetesApi {
  readonly url: string;
  readonly directory: string;
}

type Attributes = Readonly<Record<string, string>>;

/** Adds the labels of pods to the attributes of their logs. */
export interface PodLabels {
  addTo(attributes: Attributes): Promise<Attributes>;
  warnings(): SourceWarning[];
}

/** As every pod reaches it. */
const ownCluster: KubernetesApi = {
  url: "https://kubernetes.default.svc",
  directory: "/var/run/secrets/kubernetes.io/serviceaccount",
};

const answerMs = 2_000;
/** How often labels are read again, as they may change. */
const refreshMs = 5 * minuteMs;
const retryMs = minuteMs / 2;
/** So many are kept, also those of deleted pods, whose logs are read to their end. */
const podsMax = 10_000;

/** Creates the reader of the labels `names`, if any. It asks when a pod is new, and for all pods again now and then. */
export const createPodLabels = (
  names: readonly string[] = [],
  { clock, log, signal }: { clock: Clock; log: Log; signal: AbortSignal },
  api = ownCluster,
): PodLabels => {
  let pods = new Map<string, Attributes>();
  let askedMs = Number.NEGATIVE_INFINITY;
  let failure: string | undefined;
  let asking: Promise<void> | undefined;

  const ask = async () => {
    askedMs = clock.monotonic();
    const ended = new AbortController();
    try {
      const asked = readPods(api, names, AbortSignal.any([signal, ended.signal]));
      const found = await withTimeout(answerMs, clock, asked);
      pods = new Map([...(pods.size < podsMax ? pods : []), ...found]);
      failure = undefined;
    } catch (err) {
      failure = err instanceof Error ? err.message : "unknown reason";
      log.warn({ err }, "the labels of pods cannot be read; reading logs without them");
    } finally {
      ended.abort("answered");
      asking = undefined;
    }
  };
  const isMissing = (uid: string) => failure === undefined && !pods.has(uid);

  return {
    addTo: async (attributes) => {
      const uid = attributes["k8s.pod.uid"];
      if (uid === undefined || names.length === 0) return attributes;
      // A request that began before the pod existed does not return it.
      if (asking && isMissing(uid)) await asking;
      const dueMs = failure === undefined ? refreshMs : retryMs;
      if (isMissing(uid) || clock.monotonic() - askedMs >= dueMs) asking ??= ask();
      if (isMissing(uid)) await asking;
      // Not asked for again before the next answer.
      if (isMissing(uid)) pods.set(uid, {});
      return { ...attributes, ...pods.get(uid) };
    },
    warnings: () =>
      warningOf(
        "pod_labels",
        failure === undefined ? [] : [api.url],
        `logs are read without the labels of pods: ${failure}`,
      ),
  };
};

/** Without specifications and status: a tenth of the whole. */
const metadataAlone = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

const Texts = v.optional(v.record(v.string(), v.string()), {});
const PodList = v.object({
  items: v.array(
    v.object({
      metadata: v.object({
        uid: v.string(),
        annotations: Texts,
        labels: v.optional(v.record(v.string(), v.pipe(v.string(), v.regex(/^[-\w.]{0,63}$/))), {}),
      }),
    }),
  ),
});

/** Returns the labels `names` of the node's pods, as attributes by the uid in the path of a pod's logs. */
const readPods = async (
  api: KubernetesApi,
  names: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, Attributes>> => {
  const parsed = v.safeParse(PodList, await getPods(api, signal));
  if (!parsed.success) throw new Error("the answer of the API is not a list of pods");
  return new Map(
    parsed.output.items.map(({ metadata: { uid, annotations, labels } }) => {
      const found = names
        .filter((name) => Object.hasOwn(labels, name))
        .map((name) => [`k8s.pod.label.${name}`, labels[name]]);
      // The logs of a static pod have the hash of its manifest.
      return [annotations["kubernetes.io/config.hash"] ?? uid, Object.fromEntries(found)];
    }),
  );
};

const getPods = async (
  { url, directory }: KubernetesApi,
  signal: AbortSignal,
): Promise<unknown> => {
  const token = (await readFile(join(directory, "token"), "utf8")).trim();
  const ca = await readFile(join(directory, "ca.crt"), "utf8");
  const selector = new URLSearchParams({ fieldSelector: `spec.nodeName=${nodeOf(token)}` });
  const headers = { authorization: `Bearer ${token}`, accept: metadataAlone };
  const answered = Promise.withResolvers<IncomingMessage>();
  get(`${url}/api/v1/pods?${selector}`, { agent: false, ca, headers, signal }, answered.resolve).on(
    "error",
    answered.reject,
  );
  const response = await answered.promise;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    size += chunk.length;
    if (size > jsonLimits.podMetadata.bytes) throw new Error("the answer of the API is too long");
    chunks.push(chunk);
  }
  if (response.statusCode !== 200)
    throw new Error(`the API answers status ${response.statusCode}; may it list pods?`);
  return parseForeignJson(Buffer.concat(chunks), jsonLimits.podMetadata);
};

const Claims = v.object({
  "kubernetes.io": v.object({ node: v.object({ name: v.pipe(v.string(), v.maxLength(253)) }) }),
});

/** Returns the node of the pod that a service account's token is of. */
const nodeOf = (token: string): string => {
  const [, claims = ""] = token.split(".");
  const parsed = v.safeParse(
    v.pipe(v.string(), v.parseJson(), Claims),
    `${Buffer.from(claims, "base64url")}`,
  );
  if (!parsed.success) throw new Error("the token names no node, as of Kubernetes before 1.30");
  return parsed.output["kubernetes.io"].node.name;
};
