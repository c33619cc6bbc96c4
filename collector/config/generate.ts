import { stringify } from "yaml";
import { otlpGrpcListen, otlpHttpListen, rootAcknowledgement } from "../../proto/collector-config/schema.ts";

/** What an enrolled host's config says. */
export interface GeneratedConfig {
  endpoint: string;
  certFile: string;
  keyFile: string;
  ingestCaFile: string;
  bufferDir: string;
  /** Undefined for an enrollment over plain HTTP: then there is no management section. */
  coreUrl: string | undefined;
  coreCaFile: string | undefined;
  runAsRootAcknowledged: boolean;
}

const header = `# Written by svc-collector enroll. It holds no secret; every key: docs/collector-config.md
# svc-collector validate-config checks it after a change.
`;

/** The YAML that `enroll` writes: no `host_id` and fixed paths, so that one text fits every host with the same directories. */
export const generateConfig = (config: GeneratedConfig): string =>
  header +
  stringify(
    {
      ...(config.runAsRootAcknowledged ? { run_as_root_acknowledged: rootAcknowledgement } : {}),
      sources: [{ type: "otlp", grpc: { listen: otlpGrpcListen }, http: { listen: otlpHttpListen } }],
      forwarder: {
        endpoint: config.endpoint,
        mtls: { cert_file: config.certFile, key_file: config.keyFile, ca_file: config.ingestCaFile },
      },
      buffer: { dir: config.bufferDir },
      ...(config.coreUrl === undefined
        ? {}
        : {
            management: {
              core_url: config.coreUrl,
              ...(config.coreCaFile === undefined ? {} : { ca_file: config.coreCaFile }),
            },
          }),
    },
    { lineWidth: 0 },
  );
