/** How a release was built: an in-toto statement with SLSA's provenance, and its signed envelope (DSSE). */
import { createHash, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import type { ReleaseManifest } from "./release-manifest.ts";
import { splitImageRef } from "./release-spec.ts";

/** The statement in a release, and the envelope that a mirror bundle adds. */
export const provenanceFiles = {
  statement: "provenance.json",
  envelope: "provenance.intoto.jsonl",
} as const;

const payloadType = "application/vnd.in-toto+json";

/** What a release was built from. */
export interface ProvenanceSources {
  commit: string;
  /** SHA-256 digests (hex) of files of that commit, by path. */
  files: Readonly<Record<string, string>>;
}

/**
 * Prints the statement: its subjects are the artifacts and images of the manifest. It names no machine and no time, so that the same commit
 * gives the same bytes.
 */
export const printProvenance = (
  manifest: ReleaseManifest,
  { commit, files }: ProvenanceSources,
): string => {
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject: subjectsOf(manifest),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "urn:collector-fleet:release:v1",
        externalParameters: { version: manifest.version, tag: `v${manifest.version}` },
        resolvedDependencies: [
          { name: "collector-fleet", digest: { gitCommit: commit } },
          ...Object.entries(files).map(([name, sha256]) => ({ name, digest: { sha256 } })),
        ],
      },
      runDetails: { builder: { id: "urn:collector-fleet:maintainer" } },
    },
  };
  return `${JSON.stringify(statement, null, 2)}\n`;
};

const subjectsOf = ({ artifacts, images }: ReleaseManifest) => [
  ...artifacts.map(({ path, sha256 }) => ({ name: path, digest: { sha256 } })),
  ...images.map(({ name, ref }) => ({
    name,
    digest: { sha256: splitImageRef(ref)?.digest ?? "" },
  })),
];

/** What DSSE signs: type and payload, each with its length. */
const preAuthentication = (payload: Uint8Array): Buffer =>
  Buffer.concat([
    Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `),
    payload,
  ]);

/** Prints the envelope of a statement, signed with an Ed25519 key. */
export const signProvenance = (statement: Uint8Array, key: KeyObject): string => {
  const publicKey = createPublicKey(key).export({ type: "spki", format: "der" });
  const envelope = {
    payload: Buffer.from(statement).toString("base64"),
    payloadType,
    signatures: [
      {
        keyid: createHash("sha256").update(publicKey).digest("hex"),
        sig: sign(null, preAuthentication(statement), key).toString("base64"),
      },
    ],
  };
  return `${JSON.stringify(envelope)}\n`;
};

/** Returns why the statement and its envelope do not vouch for the manifest's files; undefined if they do. */
export const provenanceFault = (
  { statement, envelope }: { statement: Buffer; envelope: string },
  manifest: ReleaseManifest,
  publicKey: KeyObject,
): string | undefined => {
  const found = parse<{
    payload?: unknown;
    payloadType?: unknown;
    signatures?: { sig?: unknown }[];
  }>(envelope);
  const signature = found?.signatures?.[0]?.sig;
  if (
    found?.payloadType !== payloadType ||
    found.payload !== statement.toString("base64") ||
    typeof signature !== "string" ||
    !verify(null, preAuthentication(statement), publicKey, Buffer.from(signature, "base64"))
  )
    return `${provenanceFiles.envelope} is not the signed ${provenanceFiles.statement}`;
  const { subject } = parse<{ subject?: unknown }>(statement.toString("utf8")) ?? {};
  if (JSON.stringify(subject) !== JSON.stringify(subjectsOf(manifest)))
    return `${provenanceFiles.statement} is of other artifacts than the manifest`;
  return undefined;
};

const parse = <Content>(text: string): Content | undefined => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
