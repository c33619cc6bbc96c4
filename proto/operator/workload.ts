/** Rules on the tokens of workloads: whom they match (docs/workloads.md), and which hosts they enroll (docs/enroll-kubernetes.md). */
import * as v from "valibot";
import { Labels } from "../labels.ts";
import { FilledListUpTo, Identifier, Integer } from "../values.ts";

/** A claim's value, an issuer, or an audience. */
export const ClaimText = v.pipe(
  v.string("must be text"),
  v.nonEmpty("must not be empty"),
  v.maxLength(512, "is too long"),
);

/** The subjects of a rule. `*` stands for one segment. */
export const SubjectPattern = v.pipe(
  ClaimText,
  v.check((pattern) => pattern.split("*").length <= 2, "must hold one * at most"),
  v.check(
    (pattern) =>
      pattern.split(/[:/]/).every((segment) => segment === "*" || !segment.includes("*")),
    "may hold * in place of a whole segment between : and / only",
  ),
);

/** The claims of a pod and its node, by the names that rules use. */
const boundClaims = ["namespace", "service_account", "pod", "pod_uid", "node", "node_uid"] as const;

/** One of `boundClaims`. */
export type BoundClaim = (typeof boundClaims)[number];

const placeholder = /\{([^{}]*)\}/g;

const placeholdersOf = (template: string): string[] =>
  [...template.matchAll(placeholder)].map(([, name = ""]) => name);

const DeviceTemplate = v.pipe(
  Identifier(128),
  v.check(
    (template) =>
      placeholdersOf(template).every((name) => boundClaims.some((claim) => claim === name)),
    `may name only ${boundClaims.map((name) => `{${name}}`).join(", ")}`,
  ),
  v.check(
    (template) => placeholdersOf(template).some((name) => name === "node" || name === "node_uid"),
    "must name {node} or {node_uid}: each node has an identity of its own",
  ),
);

/** Returns the device id of a pod's node. */
export const deviceIdOf = (
  template: string,
  claims: Readonly<Record<BoundClaim, string>>,
): string => template.replace(placeholder, (_, name: BoundClaim) => claims[name]);

/** Which service account tokens enroll hosts under a policy, and as which devices. */
export const WorkloadTerms = v.strictObject({
  issuer: v.pipe(
    ClaimText,
    v.description("one of SVC_WORKLOAD_ISSUERS_FILE, which has its audience and its keys"),
  ),
  max_token_ttl_seconds: v.optional(
    v.pipe(Integer(600, 86_400), v.description("tokens with a longer lifetime are refused")),
    3600,
  ),
  rules: v.pipe(
    FilledListUpTo(
      32,
      v.strictObject({
        pattern: SubjectPattern,
        claims: v.optional(v.record(ClaimText, ClaimText, "must be a mapping"), {}),
        device_id: v.optional(DeviceTemplate, "{node}"),
        labels: v.optional(Labels, {}),
      }),
    ),
    v.description("the first that matches decides"),
  ),
});

/** Which service account tokens enroll hosts under a policy, with defaults applied. */
export type WorkloadTerms = v.InferOutput<typeof WorkloadTerms>;
