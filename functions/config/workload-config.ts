import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { fileForm } from "#kit/variables.ts";
import { scopes } from "#proto/operator/scopes.ts";
import { ClaimText, SubjectPattern } from "#proto/operator/workload.ts";
import { secretYaml } from "./parse-yaml.ts";

const url = v.pipe(
  v.string("must be a URL"),
  v.check(isConfidentialUrl, "must be https://, or http:// of loopback"),
);
const claim = v.pipe(
  v.union([ClaimText, v.pipe(v.number(), v.safeInteger())], "must be text or an integer"),
  v.transform(String),
);

/**
 * Platforms whose subjects are names that another account may get once the first is renamed or deleted; and their claims that identify an
 * account permanently.
 */
const idClaims: readonly [issuer: RegExp, claims: readonly string[]][] = [
  [
    /^https:\/\/token\.actions\.githubusercontent\.com(?:\/|$)|\/_services\/token\/?$/,
    ["repository_owner_id", "repository_id"],
  ],
  [/^https:\/\/gitlab\.com\/?$/, ["namespace_id", "project_id"]],
];

const Subject = v.strictObject({
  pattern: SubjectPattern,
  claims: v.optional(v.record(ClaimText, claim, "must be a mapping"), {}),
  scopes: v.pipe(
    v.array(v.picklist(scopes, "must be read, audit or admin")),
    v.minLength(1, "must name a scope"),
  ),
});

const Issuer = v.pipe(
  v.strictObject({
    issuer: url,
    audience: ClaimText,
    jwks_uri: v.optional(url),
    subjects: v.optional(
      v.pipe(
        v.array(Subject, "must be a list of patterns with scopes"),
        v.minLength(1, "must not be empty"),
      ),
    ),
  }),
  v.transform(({ issuer, audience, jwks_uri: jwksUri = null, subjects = [] }) => ({
    issuer,
    /** The `aud` that a token must have. */
    audience,
    /** Null: the one in the issuer's discovery document. */
    jwksUri,
    /** The workloads that may exchange tokens. The first rule that matches decides: by its pattern, and each of its claims. */
    subjects,
  })),
);

const IssuersFile = v.strictObject({
  issuers: v.pipe(
    v.array(Issuer, "must be a list of issuers"),
    v.check(
      (issuers) => new Set(issuers.map(({ issuer }) => issuer)).size === issuers.length,
      "names one issuer twice",
    ),
  ),
});

/** An OpenID Connect issuer whose tokens workloads exchange (docs/workloads.md), and hosts enroll with (docs/enroll-kubernetes.md). */
export type WorkloadIssuer = v.InferOutput<typeof Issuer>;

/** Returns the fault of the first rule without a required id. */
const faultOfIds = (issuers: readonly WorkloadIssuer[]) => {
  for (const [index, { issuer, subjects }] of issuers.entries()) {
    const ids = idClaims.find(([known]) => known.test(issuer))?.[1];
    const ruleWithoutId =
      ids && subjects.findIndex(({ claims }) => !ids.some((id) => Object.hasOwn(claims, id)));
    if (ids === undefined || ruleWithoutId === undefined || ruleWithoutId < 0) continue;
    return `issuers.${index}.subjects.${ruleWithoutId} must name ${ids.join(" or ")} in claims: names can pass to another account, ids cannot`;
  }
  return undefined;
};

/** The variable of the issuers. */
export const workloadVariables = {
  /**
   * issuers of [workloads](workloads.md) and [nodes](enroll-kubernetes.md), as YAML; where there are
   * no files, as in workerd, in the variable itself
   */
  SVC_WORKLOAD_ISSUERS: v.optional(
    v.pipe(
      v.string(),
      fileForm,
      secretYaml(IssuersFile, ({ issuers }) => faultOfIds(issuers)),
    ),
  ),
};
