/** The values of a host's command; null for what its admin has to fill in. */
interface EnrollCommand {
  coreUrl: string | null;
  ingestAddress: string | null;
  identityPrefix: string | null;
  /** The path of the bootstrap token's file on the host. */
  tokenFile: string;
  /** The path of the CA bundle of core's certificate on the host. */
  caBundle: string;
}

/** Returns the command that enrolls a host, with each value quoted for a shell. It names files, and holds no secret. */
export const enrollCommandLine = ({
  coreUrl,
  ingestAddress,
  identityPrefix,
  tokenFile,
  caBundle,
}: EnrollCommand): string => {
  const options = [
    `--core ${quoted(coreUrl ?? "https://core.example.com")}`,
    `--ingest ${quoted(ingestAddress ?? "core.example.com:8443")}`,
    `--identity-prefix ${quoted(identityPrefix ?? "spiffe://example.com/host/")}`,
    `--device-id "$(hostname)"`,
    `--ca-bundle ${quoted(caBundle)}`,
    `--token-file ${quoted(tokenFile)}`,
    // The collector rejects plain HTTP otherwise, and core rejects it for any address but loopback.
    ...(coreUrl?.startsWith("http://") ? ["--insecure-loopback-http"] : []),
  ];
  return ["svc-collector enroll", ...options.map((option) => `  ${option}`)].join(" \\\n");
};

const quoted = (text: string) =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
