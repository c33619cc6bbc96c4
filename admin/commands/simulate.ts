import { type SimulateEnrollmentResponse, simulateEnrollment } from "../../client/index.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { columnsOf } from "../terminal/list-rows.ts";
import { printRecord, printRows } from "../terminal/output.ts";
import { readTokenFile, tokenDigest } from "../terminal/token-file.ts";
import { resolveId } from "./names.ts";

interface SimulateOptions {
  policy: string;
  deviceId: string;
  address: string;
  platform: string;
  prefix?: string;
  tokenFile?: string;
}

/** `svc-admin simulate enroll`: ends with 1 where the host would be refused. The token itself stays on this machine. */
export const simulateEnrollAction: Action<SimulateOptions> = async (terminal, options) => {
  const { policy, deviceId, address, platform, prefix, tokenFile, format } = options;
  const client = connect(terminal, options);
  const { data } = await simulateEnrollment({
    client,
    path: { id: await resolveId(client, "policy", policy) },
    body: {
      device_id: deviceId,
      address,
      platform,
      ...(prefix === undefined ? {} : { identity_prefix: prefix }),
      ...(tokenFile === undefined ? {} : { token_sha256: await tokenDigest(readTokenFile(tokenFile)) }),
    },
  });
  const simulation = data as SimulateEnrollmentResponse;
  const { allowed, identity, code, rule, detail, checks } = simulation;
  if (format === "json" || format === "yaml") await printRecord(terminal, { format, record: simulation });
  else await printRows(terminal, { format, columns: columnsOf<Check>("rule", "outcome", "detail"), rows: checks });
  terminal.err.write(
    allowed
      ? `${identity} may enroll.\n`
      : `${identity} would be refused with ${code} by the rule ${rule}: ${detail}.\n`,
  );
  return allowed ? exitCodes.ok : exitCodes.refused;
};

type Check = SimulateEnrollmentResponse["checks"][number];
