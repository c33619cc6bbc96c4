/** The files with which opampsupervisor runs another agent under core: its config, and the units of a timer that renews its credentials. */
import { join } from "node:path";
import { stringify } from "yaml";
import type { CollectorEnv } from "../env.ts";
import { writeDurably } from "../files/private-files.ts";
import { credentialFiles } from "../identity/identity-directory.ts";
import type { EnrollOptions } from "./enroll-options.ts";

/** The supervisor reads renewed credentials again so often, when it connects. */
const reloadInterval = "5m";

/** The capabilities of opampsupervisor 0.149, by its names. */
const capabilities = [
  "accepts_remote_config",
  "accepts_restart_command",
  "reports_available_components",
  "reports_effective_config",
  "reports_health",
  "reports_heartbeat",
  "reports_own_metrics",
  "reports_remote_config",
];

const unitName = "svc-opamp-renew";

/** Writes the files of a supervised agent. Returns what to do next. */
export const writeSupervisedAgent = async (
  { paths, ingest, ingestCaPem, coreCaPem, otelcol }: EnrollOptions,
  env: CollectorEnv,
): Promise<string[]> => {
  const { configDir, identity } = paths;
  const supervisor = {
    server: {
      endpoint: `wss://${ingest}/v1/opamp`,
      tls: {
        ca_file: ingestCaPem === coreCaPem ? paths.coreCa : paths.ingestCa,
        cert_file: join(identity, "current", credentialFiles.certificate),
        key_file: join(identity, "current", credentialFiles.key),
        reload_interval: reloadInterval,
      },
    },
    capabilities: Object.fromEntries(capabilities.map((name) => [name, true])),
    agent: { executable: otelcol },
    storage: { directory: paths.data },
  };
  const header = "# Written by svc-collector enroll. It contains no secret.\n";
  const files = {
    "supervisor.yaml": header + stringify(supervisor, { lineWidth: 0 }),
    [`${unitName}.service`]: renewService(configDir, env.effectiveUid ?? 0),
    [`${unitName}.timer`]: renewTimer,
  };
  for (const [name, text] of Object.entries(files))
    await writeDurably(join(configDir, name), text, env, 0o644);
  const units = join(configDir, `${unitName}.*`);
  return [
    `renew its certificate: sudo cp ${units} /etc/systemd/system/ && sudo systemctl enable --now ${unitName}.timer`,
    `start it: opampsupervisor --config ${join(configDir, "supervisor.yaml")}`,
  ];
};

const renewService = (directory: string, uid: number) => `[Unit]
Description=Renew the certificate of an OpenTelemetry agent
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/svc-collector renew --out ${directory}
User=${uid}
UMask=0077
NoNewPrivileges=yes
`;

/** Certificates live for at least five minutes, and usually for weeks. */
const renewTimer = `[Unit]
Description=Renew the certificate of an OpenTelemetry agent when it is due

[Timer]
OnCalendar=*:0/15
RandomizedDelaySec=5m
Persistent=true

[Install]
WantedBy=timers.target
`;
