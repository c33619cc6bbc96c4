import { fileURLToPath } from "node:url";
import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, describe, expect, it } from "vitest";
import { startTestIngest } from "#tests/support/ingest.ts";

const test = await startTestIngest({});
afterAll(() => test.close());
const certificate = await test.client({});

interface Answer {
  list_services_response?: { service: { name: string }[] };
  file_descriptor_response?: { file_descriptor_proto: Buffer[] };
  error_response?: { error_code: number };
}

/** Asks the service of a version, with a client that shares no code with ours. */
const ask = async (version: string, requests: readonly object[]) => {
  const path = fileURLToPath(
    new URL(`../../proto/grpc/reflection/${version}/reflection.proto`, import.meta.url),
  );
  const definition = loadSync(path, { keepCase: true, oneofs: true });
  // biome-ignore lint/suspicious/noExplicitAny: what the loader makes has no static type
  const loaded = grpc.loadPackageDefinition(definition) as any;
  const client = new loaded.grpc.reflection[version].ServerReflection(
    `localhost:${test.port}`,
    grpc.credentials.createSsl(
      Buffer.from(test.caPem),
      Buffer.from(certificate.key),
      Buffer.from(certificate.cert),
    ),
  );
  const call = client.ServerReflectionInfo();
  const answers: Answer[] = [];
  call.on("data", (answer: Answer) => answers.push(answer));
  call.on("error", () => undefined);
  const ended = new Promise<number>((resolve) =>
    call.on("status", ({ code }: { code: number }) => resolve(code)),
  );
  for (const request of requests) call.write(request);
  call.end();
  const code = await ended;
  client.close();
  return { answers, code };
};

describe.each(["v1", "v1alpha"])("server reflection %s", (version) => {
  it("lists the services, and describes them with all that they import", async () => {
    const { answers, code } = await ask(version, [
      { list_services: "" },
      { file_containing_symbol: "svc.ingest.v1.IngestService" },
      { file_containing_symbol: "svc.ingest.v1.Open" },
      { file_by_filename: "google/protobuf/timestamp.proto" },
    ]);
    expect(code).toBe(0);
    expect(answers[0]?.list_services_response?.service.map(({ name }) => name)).toEqual([
      "svc.ingest.v1.IngestService",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "grpc.health.v1.Health",
    ]);
    const file = answers[1]?.file_descriptor_response?.file_descriptor_proto.map((bytes) =>
      fromBinary(FileDescriptorProtoSchema, bytes),
    );
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: file ?? [] }));
    const service = registry.getService("svc.ingest.v1.IngestService");
    expect(service?.methods.map(({ name, methodKind }) => [name, methodKind])).toEqual([
      ["Forward", "bidi_streaming"],
      ["Submit", "unary"],
    ]);
    expect(answers[2]).toEqual({ ...answers[1], original_request: expect.anything() });
    expect(answers[3]?.file_descriptor_response?.file_descriptor_proto).toHaveLength(1);
  });

  it("answers not found for what it does not serve, and ends a stream of too many or too large requests", async () => {
    const unknown = await ask(version, [
      { file_containing_symbol: "svc.ingest.v1.Nothing" },
      { file_by_filename: "../../etc/passwd" },
      { all_extension_numbers_of_type: "svc.ingest.v1.Open" },
      {},
    ]);
    expect(unknown.answers.map(({ error_response }) => error_response?.error_code)).toEqual([
      5, 5, 5, 5,
    ]);
    const many = await ask(version, Array(101).fill({ list_services: "" }));
    expect([many.answers.length, many.code]).toEqual([100, grpc.status.RESOURCE_EXHAUSTED]);
    const large = await ask(version, [{ list_services: "x".repeat(5_000) }]);
    expect([large.answers.length, large.code]).toEqual([0, grpc.status.RESOURCE_EXHAUSTED]);
  });
});
