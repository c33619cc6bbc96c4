import { statSync } from "node:fs";
import { decodeJwt } from "jose";
import type { CoreConfig } from "#functions/config/core-config.ts";
import type { ReportedCredential } from "#functions/store/system/system.ts";
import { rfc3339 } from "#kit/clock.ts";
import { encodePem } from "#proto/pem.ts";
import { type Credential, type CredentialName, credentials } from "#proto/system/credentials.ts";
import { describeCertificates } from "../signer/describe-certificates.ts";
import type { FollowedFiles } from "./follow-files.ts";

/** How a new connection to the database connects; `tls` has the PEM of its files. */
interface DatabaseTarget {
  tls?: { cert?: unknown; ca?: unknown } | undefined;
}

/** What core has loaded of its files. */
interface LoadedFiles {
  files: Pick<FollowedFiles, "signing" | "tls" | "bundles">;
  variables: {
    servers: Record<"requests" | "sessions", { servers: { target(): DatabaseTarget } }>;
  };
}

type Part = ReportedCredential["parts"][number];

/** Of a bundle with more authorities, such as all public ones, only the last end says something. */
const partsMax = 8;

/** Creates a function that returns the credentials of this core, with the ends of those that are in use. */
export const createCredentialReader = (
  { sources, license }: Pick<CoreConfig, "sources" | "license">,
  loaded: LoadedFiles,
): (() => ReportedCredential[]) => {
  const known = new Map<string, { text: string; parts: readonly Part[] }>();
  const readParts = (name: string, text: string) => {
    const before = known.get(name);
    if (before?.text === text) return before.parts;
    const parts = partsOf(text);
    known.set(name, { text, parts });
    return parts;
  };
  return () => {
    const texts: Partial<Record<string, string>> = {
      ...textsInUse(loaded),
      license: license?.token.reveal(),
    };
    return Object.entries<Credential>(credentials).flatMap(([name, credential]) => {
      const isSet = credential.variables.some((variable) => sources.has(variable));
      const { [name]: text } = texts;
      if (!isOfCore(credential) || !isSet || (statesEnd(credential) && !text)) return [];
      const parts = text ? readParts(name, text) : [];
      const signs = name === "enrollment_ca" ? loaded.files.signing?.signer.notAfter() : undefined;
      return {
        name,
        endsAt: signs === undefined ? endOf(credential, parts) : rfc3339(signs),
        parts: parts.length > partsMax ? parts.slice(-1) : parts,
        changedAt: changeOf(credential, sources),
      };
    });
  };
};

const isOfCore = ({ of = "core" }: Credential) => of === "core" || of === "core and web";

const statesEnd = ({ ending }: Credential) => ["chain", "bundle", "token"].includes(ending);

/** Returns what is in use of credentials that state their ends, as text. */
const textsInUse = ({
  files: { signing, tls, bundles },
  variables: { servers },
}: LoadedFiles): { [name in CredentialName]?: string | undefined } => {
  const database = [servers.requests, servers.sessions].map((each) => each.servers.target().tls);
  return {
    ingest_server: tls?.current().cert.toString("latin1"),
    ingest_client_ca: tls?.current().ca.toString("latin1"),
    enrollment_ca: signing
      ?.authorities()
      .map(({ der }) => encodePem(der, "CERTIFICATE"))
      .join(""),
    database_client: database.map((each) => String(each?.cert ?? "")).join(""),
    database_ca: database.map((each) => String(each?.ca ?? "")).join(""),
    ...Object.fromEntries(
      bundles.map(({ channel, current }) => [`${channel}_ca_bundle`, current()?.pem]),
    ),
  };
};

/** Returns the certificates of a text, or the token in it, by their ends; nothing for what cannot be read. */
const partsOf = (text: string): readonly Part[] => {
  const certificates = describeCertificates(text);
  const parts: readonly Part[] = certificates.length > 0 ? certificates : tokenOf(text);
  const different = new Map(parts.map((part) => [JSON.stringify(part), part]));
  return [...different.values()].sort((a, b) => a.endsAt.localeCompare(b.endsAt));
};

const tokenOf = (text: string) =>
  unlessUnreadable((): Part => {
    const token = text.split(/\s/).find((line) => line.startsWith("eyJ")) ?? "";
    return { subject: null, endsAt: rfc3339(Number(decodeJwt(token).exp) * 1000) };
  });

/** Returns what `read` returns, as a list; an empty one if it throws: a seed is no token, and a file may be gone. */
const unlessUnreadable = <Value>(read: () => Value): Value[] => {
  try {
    return [read()];
  } catch {
    return [];
  }
};

const endOf = ({ ending }: Credential, parts: readonly Part[]) =>
  parts.at(ending === "bundle" ? -1 : 0)?.endsAt ?? null;

const changeOf = ({ variables }: Credential, sources: CoreConfig["sources"]): string | null => {
  const paths = variables.map((variable) => sources.get(variable)).filter((path) => path != null);
  const times = paths.flatMap((path) => unlessUnreadable(() => statSync(path).mtimeMs));
  return times.length === 0 ? null : rfc3339(Math.max(...times));
};
