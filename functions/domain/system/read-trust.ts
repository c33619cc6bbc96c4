import type { Core } from "#functions/core.ts";
import { describeCertificates } from "#functions/signer/describe-certificates.ts";
import { findTrust } from "#functions/store/system/ca-bundles.ts";
import { rfc3339 } from "#kit/clock.ts";
import { type CaChannel, caChannels } from "#proto/management/ca-bundle.ts";
import { credentials, reenrollCommand } from "#proto/system/credentials.ts";
import type { ChannelTrust, SystemTrust } from "#proto/system/trust.ts";
import { fleetThresholds } from "../fleet/thresholds.ts";

type Trust = Awaited<ReturnType<typeof findTrust>>;

/** Returns which roots hosts have for each channel, which hosts lack the newest, and when an old root may go. */
export const readTrust = async ({
  reports: db,
  clock,
  config,
}: Pick<Core, "reports" | "clock" | "config">): Promise<SystemTrust> => {
  const now = clock.now();
  const recentFrom = new Date(now - fleetThresholds(config).staleAfterSeconds * 1000);
  const channels = await Promise.all(
    caChannels.map(async (channel) => viewOf(channel, await findTrust(db, channel), recentFrom)),
  );
  return { generated_at: rfc3339(now), channels, away: reenrollCommand };
};

const viewOf = (channel: CaChannel, trust: Trust, recentFrom: Date): ChannelTrust => ({
  channel,
  bundle: trust.bundle && {
    number: trust.bundle.number,
    sha256: trust.bundle.sha256,
    published_at: rfc3339(trust.bundle.publishedAt.getTime()),
    roots: describeCertificates(trust.bundle.pem).map(({ subject, endsAt }) => ({
      subject,
      ends_at: endsAt,
    })),
  },
  hosts: trust.hosts,
  lacking: trust.lacking.map(({ identityId, identity, number, isPinned, lastHeartbeatAt }) => ({
    identity_id: identityId,
    identity,
    number,
    is_pinned: isPinned,
    is_silent: lastHeartbeatAt === null || lastHeartbeatAt < recentFrom,
    last_heartbeat_at: lastHeartbeatAt && rfc3339(lastHeartbeatAt.getTime()),
  })),
  advice: adviceOf(channel, trust),
});

const adviceOf = (channel: CaChannel, { bundle, hosts }: Trust) => {
  const [variable] = credentials[`${channel}_ca_bundle`].variables;
  if (bundle === null) return `No bundle is published: ${variable} is not set.`;
  const all = Object.values(hosts).reduce((sum, count) => sum + count, 0);
  const lacking = all - hosts.newest;
  return lacking === 0
    ? `Every host has bundle ${bundle.number}: servers may use any root in it, and unused ones can be removed.`
    : `${lacking} of ${all} hosts lack bundle ${bundle.number}: servers must not use its new roots yet.`;
};
