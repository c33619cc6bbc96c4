import type { Core } from "#functions/core.ts";
import { countCollectors } from "#functions/store/certificate/identities.ts";
import {
  countPeople,
  type DirectorySync,
  findDirectorySync,
} from "#functions/store/directory/directory.ts";
import { findOldestActivePolicy } from "#functions/store/enrollment/policies.ts";
import { countEnrollment } from "#functions/store/enrollment/report.ts";
import type { Setup, SetupStep } from "#proto/operator/setup.ts";

/** Returns which steps of a new deployment are done, and the values for the command of its first host. */
export const readSetup = async ({
  db,
  clock,
  config,
  signer,
}: Pick<Core, "db" | "clock" | "config" | "signer">): Promise<Setup> => {
  const [sync, people, enrollment, policy, hosts] = await Promise.all([
    findDirectorySync(db),
    countPeople(db),
    countEnrollment(db, new Date(clock.now())),
    findOldestActivePolicy(db),
    countCollectors(db, new Date(clock.now())),
  ]);
  const fault =
    signer === null ? "no enrollment signer is configured" : signer.faultAt(clock.now());
  const { advertised, ingest } = config;
  return {
    steps: [
      step("directory", people.scopes.admin > 0, directoryDetail(config, people, sync)),
      step("signer", fault === undefined, fault ?? "certificates can be issued"),
      step(
        "ingest",
        ingest !== null,
        ingest === null
          ? "no ingest listener is configured"
          : `core listens on port ${ingest.port}`,
      ),
      step(
        "policy",
        policy !== undefined,
        counted(enrollment.policies.active, "active policy", "active policies"),
      ),
      step(
        "token",
        enrollment.tokens.active > 0,
        counted(enrollment.tokens.active, "active token", "active tokens"),
      ),
      step("host", hosts > 0, counted(hosts, "enrolled host", "enrolled hosts")),
    ],
    core_url: advertised.coreUrl,
    ingest_address: advertised.ingestAddress,
    policy: policy
      ? {
          id: policy.id,
          name: policy.name,
          identity_prefix: policy.allowedIdentityPrefixes[0] ?? "",
        }
      : null,
  };
};

const step = (name: SetupStep, done: boolean, detail: string) => ({ step: name, done, detail });

const directoryDetail = (
  { directory }: Core["config"],
  { people, scopes }: Awaited<ReturnType<typeof countPeople>>,
  sync: DirectorySync | undefined,
) => {
  if (people.active > 0) {
    const active = counted(people.active, "active person", "active people");
    return `${scopes.admin} of ${active} can administer`;
  }
  if (sync?.reasonCode) return `the last sync failed: ${sync.reasonCode}`;
  return directory.provider.kind === "scim"
    ? "the identity provider has pushed nobody yet"
    : "the directory has not been read yet";
};

const counted = (count: number, singular: string, plural: string) =>
  `${count} ${count === 1 ? singular : plural}`;
