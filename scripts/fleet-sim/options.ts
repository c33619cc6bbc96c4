import * as v from "valibot";
import { parseFlags, usageFailure } from "#collector/commands/command.ts";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { DurationVariable, IntegerVariable } from "#kit/variables.ts";
import { splitHostPort } from "#proto/collector-config/sources.ts";
import { type ScenarioName, scenarios } from "./scenario/scenarios.ts";

const scenarioNames = Object.keys(scenarios) as ScenarioName[];

/** The lines of `--help`. */
export const usage = `usage: svc-fleet-sim --scenario NAME [flags]

Plays a fleet on a virtual clock and prints what happened, and the health that core would report, as one JSON value: the same
bytes for the same seed everywhere.

  --scenario NAME     ${scenarioNames.join(", ")}
  --seed N            chooses the fleet and its history; default 1
  --duration TIME     length of the history: 5m to 12h (s, m, h); default 1h
  --out FILE          writes to FILE, all or nothing, instead of stdout
  --json              prints failures as one JSON object on stdout, and no progress
  --help, --version

With --drive it plays the fleet against a live core, in real time, with real keys, certificates and proofs, and prints a report:
latencies, failures, and how core's health report agrees with the predicted one.

  --drive URL                     base URL of core's API, without /v1; http:// on loopback only
  --operator-token-file FILE      a bridge token of an admin, read anew for each call
  --token-file FILE, --token-stdin, with --identity-prefix URI
                                  enrolls with this bootstrap token instead of one that the admin creates
  --ingest HOST:PORT              the ingest listener, for telemetry and for management requests
  --management URL                a TLS edge for management requests with the client certificate
  --client-certificate-header H   or sends them to the API, with the certificate in this header that core trusts
  --ca-bundle FILE, --ingest-ca-bundle FILE
                                  the only accepted CAs of servers; the second for the ingest listener, if another
  --hosts N                       1 to 100000; default: as many as the scenario has
  --duration TIME                 at least five heartbeat intervals of core; default these or 60s
  --run NAME                      distinguishes this fleet; default: the current time
  --rate N, --concurrency N       limits of steps begun in a second, and at once; default none, and 64
  --keep                          continues to heartbeat after the report, until stopped

Exit codes: 0 done, 1 failed or the reports differ, 2 usage.
`;

const text = v.optional(v.string());
const switched = v.boolean();
const integer = IntegerVariable;
const duration = (min: number, max: number) =>
  v.pipe(DurationVariable(min), v.maxValue(max, `must be at most ${max / 3600}h`));
const matching = (pattern: RegExp, message: string) =>
  v.optional(v.pipe(v.string(), v.regex(pattern, message)));
const baseUrl = v.pipe(
  v.string(),
  v.check(
    (url) => isConfidentialUrl(url) && !/[?#]/.test(url),
    "must be https://, or http:// on loopback, without credentials, query or fragment",
  ),
  v.transform((url) => `${new URL(url).origin}${new URL(url).pathname.replace(/\/+$/, "")}`),
);

const simulationFlags = {
  scenario: v.picklist(scenarioNames, `is required, and one of ${scenarioNames.join(", ")}`),
  seed: v.optional(integer(0), "1"),
  duration: v.optional(duration(300, 43_200), "1h"),
  out: text,
  json: switched,
};

const driveFlags = {
  ...simulationFlags,
  duration: v.optional(duration(5, 86_400)),
  drive: baseUrl,
  hosts: v.optional(integer(1, 100_000)),
  "operator-token-file": text,
  "token-file": text,
  "token-stdin": switched,
  "identity-prefix": v.optional(
    v.pipe(
      v.string(),
      v.check(
        (uri) => URL.canParse(uri) && uri.endsWith("/"),
        "must be an absolute URI that ends in /",
      ),
    ),
  ),
  management: v.optional(baseUrl),
  "client-certificate-header": matching(/^[A-Za-z0-9-]{1,64}$/, "must be the name of a header"),
  ingest: v.optional(
    v.pipe(
      v.string(),
      v.check((address) => splitHostPort(address) !== undefined, "must be host:port"),
    ),
  ),
  "ca-bundle": text,
  "ingest-ca-bundle": text,
  run: matching(/^[a-z0-9-]{1,32}$/, "must be 1 to 32 of a-z, 0-9 and -"),
  rate: v.optional(integer(1, 100_000)),
  concurrency: v.optional(integer(1, 4096), "64"),
  keep: switched,
};

const kinds = Object.fromEntries(
  Object.entries(driveFlags).map(
    ([name, flag]) => [name, flag === switched ? "switch" : "text"] as const,
  ),
);

/** The flags of a drive. */
export type DriveFlags = v.InferOutput<v.ObjectSchema<typeof driveFlags, undefined>>;

/** The validated arguments of a simulation, which sends nothing, or of a drive. */
export type SimOptions =
  | (v.InferOutput<v.ObjectSchema<typeof simulationFlags, undefined>> & { drive?: undefined })
  | (DriveFlags & { bootstrap: Bootstrap | undefined; showsCertificate: CertificatePath });

/** The file of the bootstrap token, stdin if undefined, and the identity prefix to enroll with. */
type Bootstrap = { tokenFile: string | undefined; identityPrefix: string };

/** How hosts show their certificates: the URL of a TLS listener, or the header for the API's own. */
type CertificatePath = { url: string } | { header: string };

/** Parses the arguments. Throws a usage failure that repeats none of them. */
export const readOptions = (args: readonly string[]): SimOptions => {
  const given = parseFlags(kinds, args);
  if (given.drive !== undefined) {
    const flags = parseValues(driveFlags, given);
    return { ...flags, bootstrap: bootstrapOf(flags), showsCertificate: certificatePathOf(flags) };
  }
  const driveFlag = Object.keys(given).find(
    (name) => given[name] && !Object.hasOwn(simulationFlags, name),
  );
  if (driveFlag !== undefined) throw usageFailure(`--${driveFlag} needs --drive`);
  return parseValues(simulationFlags, given);
};

const parseValues = <Flags extends v.ObjectEntries>(flags: Flags, given: object) => {
  const { success, output, issues } = v.safeParse(v.object(flags), given);
  if (success) return output;
  throw usageFailure(`--${v.getDotPath(issues[0])} ${issues[0].message}`);
};

const bootstrapOf = (flags: DriveFlags): Bootstrap | undefined => {
  const {
    "token-file": tokenFile,
    "token-stdin": fromStdin,
    "identity-prefix": identityPrefix,
  } = flags;
  if (tokenFile === undefined && !fromStdin) {
    if (flags["operator-token-file"] !== undefined) return undefined;
    throw usageFailure(
      "--operator-token-file, --token-file or --token-stdin is required with --drive",
    );
  }
  if (tokenFile !== undefined && fromStdin)
    throw usageFailure("accepts one of --token-file and --token-stdin");
  if (identityPrefix === undefined)
    throw usageFailure("--identity-prefix is required with a bootstrap token");
  return { tokenFile, identityPrefix };
};

const certificatePathOf = (flags: DriveFlags): CertificatePath => {
  const { drive, management, ingest, "client-certificate-header": header } = flags;
  if (management !== undefined && header !== undefined)
    throw usageFailure("accepts one of --management and --client-certificate-header");
  if (header !== undefined) return { header };
  if (management !== undefined) return { url: management };
  if (ingest !== undefined) return { url: `https://${ingest}` };
  if (drive.startsWith("https:")) return { url: drive };
  throw usageFailure(
    "--ingest, --management or --client-certificate-header is required: how hosts show their certificates",
  );
};
