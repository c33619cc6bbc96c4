/**
 * Server reflection, so that grpcurl and its like list the service and describe its messages without the .proto. It reports what is in
 * `proto/svc/ingest/v1/ingest.proto`, and nothing of the deployment. A stream answers at most 100 small requests and ends after 30 s, since
 * it counts as an open call of its caller.
 */
import { type DescFile, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import type { Clock } from "#kit/clock.ts";
import { Health } from "#proto/gen/grpc/health/v1/health_pb.js";
import { ServerReflection } from "#proto/gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as EarlierReflection } from "#proto/gen/grpc/reflection/v1alpha/reflection_pb.js";
import { IngestService } from "#proto/gen/svc/ingest/v1/ingest_pb.js";

const requestBytesMax = 4096;
const requestsMax = 100;
const streamMs = 30_000;

/** Serves reflection, in the version of today's clients and in the one before. */
export const serveReflection = (router: ConnectRouter, clock: Pick<Clock, "sleep">): void => {
  const options = { readMaxBytes: requestBytesMax };
  router.service(
    ServerReflection,
    { serverReflectionInfo: (requests) => answerAll(requests, clock) },
    options,
  );
  router.service(
    EarlierReflection,
    { serverReflectionInfo: (requests) => answerAll(requests, clock) },
    options,
  );
};

const served = [IngestService, ServerReflection, EarlierReflection, Health];

/** The part of a request that both versions have. */
interface Asked {
  host: string;
  messageRequest: { case: string | undefined; value?: unknown };
}

const answerAll = async function* <Request extends Asked>(
  requests: AsyncIterable<Request>,
  clock: Pick<Clock, "sleep">,
) {
  const reading = requests[Symbol.asyncIterator]();
  const over = new AbortController();
  const late = clock.sleep(streamMs, over.signal).then(() => {
    throw new ConnectError(
      `a reflection stream ends after ${streamMs / 1000} s`,
      Code.DeadlineExceeded,
    );
  });
  late.catch(() => undefined);
  try {
    for (let answered = 0; answered < requestsMax; answered++) {
      const { done, value } = await Promise.race([reading.next(), late]);
      if (done) return;
      yield {
        validHost: value.host,
        originalRequest: value,
        messageResponse: answerOf(value.messageRequest),
      };
    }
    throw new ConnectError(
      `a reflection stream answers ${requestsMax} requests`,
      Code.ResourceExhausted,
    );
  } finally {
    over.abort();
  }
};

const answerOf = ({ case: kind, value }: Asked["messageRequest"]) => {
  if (kind === "listServices") {
    const service = served.map(({ typeName }) => ({ name: typeName }));
    return { case: "listServicesResponse" as const, value: { service } };
  }
  if (typeof value === "string" && (kind === "fileByFilename" || kind === "fileContainingSymbol")) {
    const file = files.find((each) =>
      kind === "fileByFilename" ? `${each.name}.proto` === value : defines(each, value),
    );
    const fileDescriptorProto =
      file && withImports(file).map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
    if (fileDescriptorProto)
      return { case: "fileDescriptorResponse" as const, value: { fileDescriptorProto } };
  }
  return {
    case: "errorResponse" as const,
    value: { errorCode: Code.NotFound, errorMessage: "not found" },
  };
};

/** Returns a file and what it imports, each once, after what it imports itself. */
const withImports = (file: DescFile): DescFile[] => [
  ...new Set([...file.dependencies.flatMap((each) => withImports(each)), file]),
];

const files = [...new Set(served.flatMap(({ file }) => withImports(file)))];

/** Reports whether a file defines a service, one of its methods, a message or an enum by this full name. */
const defines = ({ services, messages, enums }: DescFile, symbol: string): boolean =>
  services.some(({ typeName, methods }) =>
    [typeName, ...methods.map(({ name }) => `${typeName}.${name}`)].includes(symbol),
  ) ||
  [...messages, ...enums].some(
    ({ typeName }) => symbol === typeName || symbol.startsWith(`${typeName}.`),
  );
