import { create, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import type { Signal } from "./signals.ts";
import { eachField } from "./wire.ts";

/** The answer to a request that was taken and not kept: OTLP's partial success, with everything in it rejected. */
export const partialResponse = (signal: Signal, request: Uint8Array, message: string): MessageShape<DescMessage> => {
  const response = create(signal.response);
  const [partialField] = signal.response.fields;
  if (partialField?.fieldKind !== "message") throw new TypeError("an OTLP response begins with its partial_success");
  const partial = reflect(partialField.message);
  for (const field of partial.fields) {
    if (field.localName === signal.rejectedField) partial.set(field, BigInt(countItems(signal, request)));
    else if (field.localName === "errorMessage") partial.set(field, message);
  }
  reflect(signal.response, response).set(partialField, partial);
  return response;
};

/** Numbers of the fields that lead from a request to what its signal counts. Metrics count data points, below any kind of metric. */
const paths: Record<Signal["kind"], readonly (readonly number[])[]> = {
  otel_span: [[1], [2], [2]],
  otel_log: [[1], [2], [2]],
  otel_metric: [[1], [2], [2], [5, 7, 9, 10, 11], [1]],
};

/** How many spans, log records or data points a well-formed request holds. */
export const countItems = (signal: Signal, request: Uint8Array): number => {
  const path = paths[signal.kind];
  const count = (start: number, end: number, depth: number): number => {
    const numbers = path[depth];
    if (numbers === undefined) return 1;
    let items = 0;
    eachField(request, start, end, ({ number, body, to }) => {
      if (numbers.includes(number)) items += count(body, to, depth + 1);
    });
    return items;
  };
  return count(0, request.length, 0);
};
