import { expect, it } from "vitest";
import type { ConfigFault } from "#kit/env.ts";
import { workloadIssuersOf } from "./workload-config.ts";

const read = (contents: string) => {
  const faults: ConfigFault[] = [];
  const issuers = workloadIssuersOf(
    { SVC_WORKLOAD_ISSUERS_FILE: "/issuers.yaml" },
    faults,
    () => contents,
  );
  return { issuers, fault: faults[0]?.message };
};
const entry = (subjects: string, more = "") =>
  `issuers: [{ issuer: "https://idp.example.com", audience: core, subjects: ${subjects}${more} }]`;

it("names issuers, audiences, keys and patterns", () => {
  expect(
    read(
      entry(
        "[{ pattern: 'a:*:b', scopes: [read, audit] }]",
        ", jwks_uri: 'https://keys.example.com/'",
      ),
    ),
  ).toEqual({
    issuers: [
      {
        issuer: "https://idp.example.com",
        audience: "core",
        jwksUri: "https://keys.example.com/",
        subjects: [{ pattern: "a:*:b", claims: {}, scopes: ["read", "audit"] }],
      },
    ],
    fault: undefined,
  });
  const { issuers } = read("issuers: [{ issuer: 'https://cluster.example.com', audience: core }]");
  expect(issuers[0]?.subjects).toEqual([]);
  expect(workloadIssuersOf({}, [], () => "")).toEqual([]);
});

it.each([
  [
    entry("[{ pattern: '*:*', scopes: [read] }]"),
    "issuers.0.subjects.0.pattern must hold one * at most",
  ],
  [entry("[{ pattern: 'a*', scopes: [read] }]"), "may hold * in place of a whole segment"],
  [entry("[{ pattern: a, scopes: [] }]"), "scopes must name a scope"],
  [entry("[{ pattern: a, scopes: [root] }]"), "must be read, audit or admin"],
  [entry("[]"), "issuers.0.subjects must not be empty"],
  [entry("[{ pattern: a, scopes: [read], more: 1 }]"), "issuers.0.subjects.0.more is not known"],
  [
    "issuers: [{ issuer: 'http://idp.example.com', audience: a, subjects: [] }]",
    "issuer must be https://",
  ],
  ["issuers: [{ audience: a }]", "issuers.0.issuer is required"],
  ["issuers: [", "line 1 is not valid YAML"],
  ["", "the file must be a mapping"],
])("rejects %j with the place of the fault", (contents, message) => {
  expect(read(contents).fault).toContain(message);
});

it.each([
  ["https://token.actions.githubusercontent.com", "repository_owner_id", "repository_id"],
  ["https://token.actions.githubusercontent.com/acme", "repository_owner_id", "repository_id"],
  ["https://github.acme.example/_services/token", "repository_owner_id", "repository_id"],
  ["https://gitlab.com", "namespace_id", "project_id"],
])("requires an id of rules for %s, whose names others can take", (issuer, owner, project) => {
  const rule = (claims: string) =>
    read(
      `issuers: [{ issuer: "${issuer}", audience: a, subjects: [{ pattern: p, ${claims} scopes: [read] }] }]`,
    );
  for (const claims of ["", "claims: {},", "claims: { repository_owner: acme },"])
    expect(rule(claims).fault).toBe(
      `issuers.0.subjects.0 must name ${owner} or ${project} in claims: names can pass to another account, ids cannot`,
    );
  expect(rule(`claims: { ${owner}: 12 },`).issuers[0]?.subjects[0]?.claims).toEqual({
    [owner]: "12",
  });
  expect(rule(`claims: { ${project}: "34" },`).fault).toBeUndefined();
  expect(rule(`claims: { ${project}: [34] },`).fault).toContain("must be text or an integer");
});

it("rejects a file that cannot be read, and an issuer that is named twice", () => {
  const faults: ConfigFault[] = [];
  workloadIssuersOf({ SVC_WORKLOAD_ISSUERS_FILE: "/none" }, faults, () => {
    throw new Error("ENOENT");
  });
  expect(faults[0]?.message).toMatch(/^the file cannot be read; .*SVC_WORKLOAD_ISSUERS/);
  const one =
    "{ issuer: 'https://a.example.com', audience: a, subjects: [{ pattern: a, scopes: [read] }] }";
  expect(read(`issuers: [${one}, ${one}]`).fault).toContain("names one issuer twice");
});

it("takes the text itself, and not both", () => {
  const faults: ConfigFault[] = [];
  const readFile = () => {
    throw new Error("workerd has no files");
  };
  const text = entry("[{ pattern: a, scopes: [read] }]");
  const issuers = workloadIssuersOf({ SVC_WORKLOAD_ISSUERS: text }, faults, readFile);
  expect([issuers.map(({ audience }) => audience), faults]).toEqual([["core"], []]);
  workloadIssuersOf({ SVC_WORKLOAD_ISSUERS: "" }, faults, readFile);
  workloadIssuersOf(
    { SVC_WORKLOAD_ISSUERS: text, SVC_WORKLOAD_ISSUERS_FILE: "/f" },
    faults,
    () => text,
  );
  expect(faults).toEqual([
    { variable: "SVC_WORKLOAD_ISSUERS", message: "the file must be a mapping" },
    {
      variable: "SVC_WORKLOAD_ISSUERS_FILE",
      message: "is set together with SVC_WORKLOAD_ISSUERS: keep one",
    },
  ]);
});
