import { appendFile, copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inc } from "semver";
import type { CollectorStatus } from "../../collector/status/status-socket.ts";
import { version } from "../../collector/version.ts";
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

  const policy = {
    name: `upgraded ${name}`,
    allowed_identity_prefixes: [`${identityPrefix}${name}/`],
  };
  const { token } = await createPolicyWithToken(deployment.api, policy);
  await writeFile(join(root.shared, "token"), token, { mode: 0o600 });
  await copyFile(deployment.pki.serverCaFile, join(root.shared, "ca.pem"));
  const enroll = [
    "--core",
    deployment.edge.url,
    "--ingest",
    deployment.ingestEndpoint,
    "--token-file",
    "/srv/token",
    "--device-id",
    "one",
    "--identity-prefix",
    `${identityPrefix}${name}/`,
    "--ca-bundle",
    "/srv/ca.pem",
  ];
  await root.run(
    `chown svc-collector /srv/token; exec ${asUser} svc-collector enroll "$@" >&2`,
    ...enroll,
  );
  const sources = [{ type: "file", include: ["/srv/log/app.log"], start_at: "beginning" }];
  const config = withSources(await root.run(`cat ${paths.config}`), sources);
  await writeFile(join(root.shared, "collector.yaml"), config);
  await mkdir(join(root.shared, "log"));
  await root.run(`cat /srv/collector.yaml >${paths.config}; systemctl start svc-collector`);

  const readStatus = async (): Promise<CollectorStatus> =>
    JSON.parse(await root.run("svc-collector status --json"));
  const settled = (what: string, probe: () => Promise<boolean>) =>
    waitUntil({ what, ...context }, async () => (await probe()) || undefined);
  let written = 0;
  const write = async (count: number) => {
    const lines = Array.from({ length: count }, () => `upgraded ${name} ${written++}\n`);
    await appendFile(join(root.shared, "log/app.log"), lines.join(""));
  };
  const countStored = async () => {
    await tabulateStored(deployment.sql);
    const [row] = await deployment.sql<{ stored: number; distinct_lines: number }[]>`
      select count(*)::int as stored, count(distinct payload)::int as distinct_lines from stored_envelope
      where host_id = ${`${identityPrefix}${name}/one`}`;
    return row ?? { stored: 0, distinct_lines: 0 };
  };
  await write(500);
  await settled(
    "the first lines are stored",
    async () => (await countStored()).distinct_lines >= 500,
  );
  await deployment.kill();
  await write(500);
  await settled("the queue has lines", async () => (await readStatus()).queue.records >= 500);
  const files = `find /etc/svc-collector/identity -type f -exec sha256sum {} + | sort; stat -c %i ${paths.queue}`;
  const before = await readStatus();
  const filesBefore = await root.run(files);

  let upgrading = true;
  const upgraded = root.run(install, "next").finally(() => {
    upgrading = false;
  });
  while (upgrading) {
    await write(10);
    await context.clock.sleep(20, context.signal);
  }
  await upgraded;
  await write(500);
  const after = await waitUntil({ what: "the collector runs again", ...context }, readStatus);
  const filesAfter = await root.run(files);
  deployment.start();
  await deployment.ready();
  await settled(
    "every line is stored",
    async () => (await countStored()).distinct_lines >= written,
  );
  const { stored, distinct_lines } = await countStored();
  const report = {
    lines_written: written,
    lines_stored: distinct_lines,
    repeated: stored - distinct_lines,
    identity_kept: before.certificate.fingerprint_sha256 === after.certificate.fingerprint_sha256,
    queue_kept: filesBefore === filesAfter && after.queue.dropped_records_total === 0,
    restarted: before.pid !== after.pid,
  };
  await root.close();
  return {
    ok:
      distinct_lines === written &&
      stored === written &&
      report.identity_kept &&
      report.queue_kept &&
      report.restarted,
    ...report,
  };
};
