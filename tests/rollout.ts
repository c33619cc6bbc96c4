import type { TestCore } from "./core.ts";

/** Publishes a collector config as an admin. Another size has another hash. Returns its id. */
export const publishTestConfig = async ({ api, clock }: Pick<TestCore, "api" | "clock">, maxDiskUsageMb = 100) => {
  await clock.advance(1);
  const { status, body } = await api("POST", "/v1/collector/configs", {
    as: "admin",
    body: { yaml: testConfigYaml(maxDiskUsageMb) },
  });
  if (status !== 201) throw new Error(`publishing failed: ${JSON.stringify(body)}`);
  return String(body.id);
};

/** Returns a valid collector config. */
export const testConfigYaml = (maxDiskUsageMb: number): string => `forwarder:
  endpoint: core.example.test:4318
  mtls: {cert_file: /etc/svc/cert.pem, key_file: /etc/svc/key.pem, ca_file: /etc/svc/ca.pem}
buffer: {dir: /var/lib/svc, max_disk_usage_mb: ${maxDiskUsageMb}}
`;
