/** What an admin gives of an enrollment policy (docs/enroll.md). */
import * as v from "valibot";
import { readCidr } from "#kit/address.ts";
import type { FieldError } from "#kit/problem.ts";
import { Labels, labelsMax } from "../labels.ts";
import { Count, FilledListUpTo, Identifier, ListUpTo, Prose } from "../values.ts";
import { WorkloadTerms } from "./workload.ts";

/** The longest lifetime of a certificate: 30 days. */
export const certificateTtlSecondsMax = 2_592_000;

const prefixPattern =
  /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._-]+(:\d{1,5})?\/(([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*\/)?$/;

/** An identity prefix: an absolute URI in lower-case scheme and host that ends in `/`, without query or fragment. */
export const IdentityPrefix = v.pipe(
  v.string("must be a URI"),
  v.maxLength(2000, "must be at most 2000 characters"),
  v.regex(
    prefixPattern,
    "must be an absolute URI with lower-case scheme and host that ends in / and has no query or fragment",
  ),
);

const PlatformRule = v.pipe(
  v.string("must be os or os/arch"),
  v.regex(
    /^[a-z0-9_]{1,32}(\/[a-z0-9_]{1,32})?$/,
    "must be os or os/arch, such as linux or linux/amd64",
  ),
);

/** A network in CIDR notation, IPv4 or IPv6. */
export const Cidr = v.pipe(
  v.string("must be a CIDR"),
  v.maxLength(64, "must be a CIDR"),
  v.check(
    (text) => readCidr(text) !== undefined,
    "must be a CIDR such as 10.0.0.0/8 or 2001:db8::/32",
  ),
);

/** The source CIDRs of a policy or token; an empty list allows any address. */
export const Cidrs = v.optional(ListUpTo(64, Cidr), []);

/** Body of the creation of a policy (docs/enroll.md). */
export const PolicyDraftBody = v.strictObject({
  name: Identifier(120),
  description: v.optional(v.nullable(Prose(1000)), null),
  allowed_identity_prefixes: FilledListUpTo(32, IdentityPrefix),
  certificate_ttl_seconds: v.optional(
    v.pipe(
      Count(300),
      v.description(
        `above ${certificateTtlSecondsMax} (30 days) it is capped, and the response has the capped value`,
      ),
    ),
    1_814_400,
  ),
  allowed_platforms: v.optional(ListUpTo(64, PlatformRule), []),
  max_enrollments: v.optional(
    v.pipe(Count(), v.description("first enrollments in all; 0 means unlimited")),
    0,
  ),
  max_enrollments_per_hour: v.optional(
    v.pipe(Count(), v.description("first enrollments in any hour; 0 means unlimited")),
    0,
  ),
  allowed_source_cidrs: Cidrs,
  reenrollment: v.optional(v.picklist(["deny", "replace"], "must be deny or replace"), "deny"),
  /** Of the hosts that the policy admits; they win over those that a host reports. */
  labels: v.optional(Labels, {}),
  /** Which service account tokens enroll hosts too (docs/enroll-kubernetes.md). */
  workload: v.optional(v.nullable(WorkloadTerms), null),
});

/** Returns what is wrong with the `workload` of a policy beside its schema, for the issuers that core is configured with. */
export const faultOfWorkload = (
  { labels, workload }: { labels: Labels; workload: WorkloadTerms | null },
  issuers: readonly string[],
): FieldError | undefined => {
  if (workload === null) return undefined;
  if (!issuers.includes(workload.issuer))
    return { path: "workload.issuer", message: "must be an issuer of SVC_WORKLOAD_ISSUERS_FILE" };
  const at = workload.rules.findIndex(
    (rule) => Object.keys({ ...labels, ...rule.labels }).length > labelsMax,
  );
  if (at < 0) return undefined;
  return {
    path: `workload.rules.${at}.labels`,
    message: `must have at most ${labelsMax} entries with the policy's`,
  };
};
