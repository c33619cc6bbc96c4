import { expect, it } from "vitest";
import { readStoreLocation } from "./store-location.ts";

const bucketAt = (bucketUrl: string, prefix = "", region = "us-east-1") => ({
  kind: "s3",
  place: { bucketUrl, prefix, region },
  caFile: null,
});

it.each([
  ["directory:/var/lib/svc", { kind: "directory", path: "/var/lib/svc" }],
  ["s3://tele.metry", bucketAt("https://tele.metry.s3.us-east-1.amazonaws.com/")],
  ["s3://tele/a/b/?region=eu-1", bucketAt("https://tele.s3.eu-1.amazonaws.com/", "a/b/", "eu-1")],
  ["s3://tele?endpoint=https://minio:9000", bucketAt("https://minio:9000/tele/")],
  [
    "s3://tele/a?endpoint=http://[::1]:9000/&style=virtual",
    bucketAt("http://tele.[::1]:9000/", "a/"),
  ],
  [
    "s3://tele?endpoint=https://s3.example.com&style=virtual&ca_file=/etc/ca.pem",
    { ...bucketAt("https://tele.s3.example.com/"), caFile: "/etc/ca.pem" },
  ],
])("reads %s", (text, location) => {
  expect(readStoreLocation(text)).toEqual(location);
});

it.each([
  "directory:var",
  "postgres",
  "s3:bucket",
  "s3://Bucket_1",
  "s3://bucket:1/a",
  "s3://me:secret@bucket",
  "s3://bucket/a/../b",
  "s3://bucket/a b",
  "s3://bucket/.a",
  "s3://bucket?endpoint=minio:9000",
  "s3://bucket?endpoint=https://minio/path",
  "s3://bucket?endpoint=https://me@minio",
  "s3://bucket?region=a/b",
  "s3://bucket?style=other",
  "s3://bucket?ca_file=ca.pem",
  "s3://bucket?profile=a",
])("rejects %s", (text) => {
  expect(readStoreLocation(text)).toBeNull();
});
