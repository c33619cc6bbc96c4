import { appendFile, copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inc } from "semver";
import type { CollectorStatus } from "#collector/status/status-socket.ts";
import { version } from "#collector/version.ts";
import type { LabContext } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import { withSources } from "../lab/enroll-collector.ts";
import { createPolicyWithToken } from "../lab/operator-api.ts";
import { tabulateStored } from "../lab/tabulate-stored.ts";
import { waitUntil } from "../lab/wait-until.ts";
import {
  type BuiltPackage,
  buildDebianPackage,
  type PackageBuild,
} from "./build-debian-package.ts";
import { buildRpmPackage } from "./build-rpm-package.ts";
import { openPackageRoot, whyNoRoot } from "./package-root.ts";

/** What an upgrade of a package did to a collector that ran. */
export type UpgradeReport =
  | {
      ok: boolean;
      lines_written: number;
      lines_stored: number;
      /** Lines that core stored more than once. */
      repeated: number;
      /** Whether the certificate and the file of the queue are those from before. */
      identity_kept: boolean;
      queue_kept: boolean;
      restarted: boolean;
    }
  | { ok: true; not_tried: string };

const identityPrefix = "spiffe://fleet.example.test/upgraded/";
const paths = {
  config: "/etc/svc-collector/collector.yaml",
  queue: "/var/lib/svc-collector/queue.db",
};
const asUser =
  "setpriv --reuid svc-collector --regid svc-collector --init-groups env -i PATH=/usr/bin:/bin";

const formats = {
  debian: { build: buildDebianPackage, install: 'dpkg --install "/srv/$1" >/dev/null' },
  rpm: { build: buildRpmPackage, install: 'rpm --upgrade --nodeps "/srv/$1"' },
};

/**
 * Installs a package in a root of its own, enrolls at the deployment's core, and upgrades to the next version while lines are written and core
 * is stopped: every line is stored once afterwards, from the same queue and under the same identity.
 */
export const checkUpgrade = async (
  name: keyof typeof formats,
  { built, build }: { built: BuiltPackage; build: PackageBuild },
  {
    deployment,
    context,
    cleanup,
  }: { deployment: Deployment; context: LabContext; cleanup: AsyncDisposableStack },
): Promise<UpgradeReport> => {
  const not_tried = whyNoRoot();
  if (not_tried !== null) return { ok: true, not_tried };
  context.progress(`an upgrade of the ${name} package`);
  const root = await openPackageRoot();
  cleanup.defer(() => root.close());
  const { install, build: buildNext } = formats[name];
  const next = await buildNext(join(context.dir, `next-${name}`), {
    ...build,
    version: inc(version, "patch") ?? version,
  });
  await copyFile(built.path, join(root.shared, "current"));
  await copyFile(next.path, join(root.shared, "next"));
  await root.run(install, "current");
  const prefix = `${identityPrefix}${name}/`;
  await startCollector(root, deployment, prefix);
  const lines = createLines(root, deployment, `${prefix}one`);
  const settled = (what: string, probe: () => Promise<boolean>) =>
    waitUntil({ what, ...context }, async () => (await probe()) || undefined);
  const areStored = async (count: number) => (await lines.stored()).distinct_lines >= count;
  const readStatus = async (): Promise<CollectorStatus> =>
    JSON.parse(await root.run("svc-collector status --json"));

  await lines.write(500);
  await settled("the first lines are stored", () => areStored(500));
  await deployment.kill();
  await lines.write(500);
  await settled("the queue has lines", async () => (await readStatus()).queue.records >= 500);
  const before = { status: await readStatus(), files: await root.run(keptFiles) };
  await upgradeWhileWriting(root.run(install, "next"), lines, context);
  const status = await waitUntil({ what: "the collector runs again", ...context }, readStatus);
  const after = { status, files: await root.run(keptFiles) };
  deployment.start();
  await deployment.ready();
  await settled("every line is stored", () => areStored(lines.written()));
  const stored = await lines.stored();
  await root.close();
  return describeUpgrade({ before, after, stored, written: lines.written() });
};

type PackageRoot = Awaited<ReturnType<typeof openPackageRoot>>;

/** The certificate and key, and which file the queue is. */
const keptFiles = `find /etc/svc-collector/identity -type f -exec sha256sum {} + | sort; stat -c %i ${paths.queue}`;

/** Enrolls as `one`, and starts the collector with a file to read. */
const startCollector = async (
  root: PackageRoot,
  { api, pki, edge, ingestEndpoint }: Deployment,
  prefix: string,
): Promise<void> => {
  const policy = {
    name: `upgraded ${prefix.split("/").at(-2)}`,
    allowed_identity_prefixes: [prefix],
  };
  const { token } = await createPolicyWithToken(api, policy);
  await writeFile(join(root.shared, "token"), token, { mode: 0o600 });
  await copyFile(pki.serverCaFile, join(root.shared, "ca.pem"));
  const flags = {
    core: edge.url,
    ingest: ingestEndpoint,
    "token-file": "/srv/token",
    "device-id": "one",
    "identity-prefix": prefix,
    "ca-bundle": "/srv/ca.pem",
  };
  await root.run(
    `chown svc-collector /srv/token; exec ${asUser} svc-collector enroll "$@" >&2`,
    ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
  );
  const sources = [{ type: "file", include: ["/srv/log/app.log"], start_at: "beginning" }];
  const config = withSources(await root.run(`cat ${paths.config}`), sources);
  await writeFile(join(root.shared, "collector.yaml"), config);
  await mkdir(join(root.shared, "log"));
  await root.run(`cat /srv/collector.yaml >${paths.config}; systemctl start svc-collector`);
};

/** Creates the lines of a host: what writes them, and counts those in core. */
const createLines = (root: PackageRoot, { sql }: Deployment, identity: string) => {
  let written = 0;
  return {
    written: () => written,
    write: async (count: number): Promise<void> => {
      const lines = Array.from({ length: count }, () => `${identity} ${written++}\n`);
      await appendFile(join(root.shared, "log/app.log"), lines.join(""));
    },
    stored: async () => {
      await tabulateStored(sql);
      const [row] = await sql<{ stored: number; distinct_lines: number }[]>`
        select count(*)::int as stored, count(distinct payload)::int as distinct_lines from stored_envelope
        where host_id = ${identity}`;
      return row ?? { stored: 0, distinct_lines: 0 };
    },
  };
};

const upgradeWhileWriting = async (
  upgraded: Promise<unknown>,
  lines: ReturnType<typeof createLines>,
  { clock, signal }: LabContext,
): Promise<void> => {
  let upgrading = true;
  const ended = upgraded.finally(() => {
    upgrading = false;
  });
  while (upgrading) {
    await lines.write(10);
    await clock.sleep(20, signal);
  }
  await ended;
  await lines.write(500);
};

interface Observed {
  status: CollectorStatus;
  files: string;
}

const describeUpgrade = ({
  before,
  after,
  stored: { stored, distinct_lines },
  written,
}: {
  before: Observed;
  after: Observed;
  stored: { stored: number; distinct_lines: number };
  written: number;
}): UpgradeReport => {
  const fingerprintOf = ({ status }: Observed) => status.certificate.fingerprint_sha256;
  const identity_kept = fingerprintOf(before) === fingerprintOf(after);
  const queue_kept = before.files === after.files && after.status.queue.dropped_records_total === 0;
  const restarted = before.status.pid !== after.status.pid;
  const isStoredOnce = distinct_lines === written && stored === written;
  return {
    ok: isStoredOnce && identity_kept && queue_kept && restarted,
    lines_written: written,
    lines_stored: distinct_lines,
    repeated: stored - distinct_lines,
    identity_kept,
    queue_kept,
    restarted,
  };
};
