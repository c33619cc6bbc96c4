import { Factories } from "@cyclonedx/cyclonedx-library/Contrib/License";
import {
  ComponentType,
  ExternalReferenceType,
  HashAlgorithm,
} from "@cyclonedx/cyclonedx-library/Enums";
import * as Models from "@cyclonedx/cyclonedx-library/Models";
import { JSON as JsonNormalizers, JsonSerializer } from "@cyclonedx/cyclonedx-library/Serialize";
import { Spec1dot6 } from "@cyclonedx/cyclonedx-library/Spec";
import { JsonStrictValidator } from "@cyclonedx/cyclonedx-library/Validation";
import parseExpression from "spdx-expression-parse";
import { licenseOf, type SystemPackage } from "../licenses/licenses.ts";
import type { ShippedPackage } from "../licenses/shipped-packages.ts";

/** The artifact that an SBOM describes. */
export interface DescribedArtifact {
  path: string;
  version: string;
  sha256: string;
  packages: readonly ShippedPackage[];
  /** What an image contains beside its program; undefined for anything else. */
  system?: readonly SystemPackage[];
}

/** The value of `format` in a manifest. */
export const sbomFormat = "CycloneDX 1.6";

/**
 * Returns the SBOM of an artifact as CycloneDX 1.6 JSON. The same artifact gives the same bytes: no serial number, and `timestamp`, the time
 * of the commit, as its time. Throws if the result does not validate against the schema.
 */
export const createSbom = async (artifact: DescribedArtifact, timestamp: Date): Promise<string> => {
  const licenses = new Factories.LicenseFactory(parseExpression);
  const subject = new Models.Component(
    artifact.system ? ComponentType.Container : ComponentType.Application,
    artifact.path,
    {
      bomRef: artifact.path,
      version: artifact.version,
      hashes: new Models.HashDictionary([[HashAlgorithm["SHA-256"], artifact.sha256]]),
      licenses: new Models.LicenseRepository([licenses.makeFromString("Apache-2.0")]),
    },
  );
  const bom = new Models.Bom({ metadata: new Models.Metadata({ timestamp, component: subject }) });
  const components = [
    ...artifact.packages.map((entry) => componentOf(entry, licenses)),
    ...(artifact.system ?? []).map((entry) => systemComponentOf(entry, licenses)),
  ];
  for (const component of components) {
    bom.components.add(component);
    subject.dependencies.add(component.bomRef);
  }
  const serializer = new JsonSerializer(new JsonNormalizers.Normalize.Factory(Spec1dot6));
  const text = `${serializer.serialize(bom, { sortLists: true, space: 2 })}\n`;
  const fault = await new JsonStrictValidator(Spec1dot6.version).validate(text);
  if (fault !== null)
    throw new Error(`the SBOM of ${artifact.path} is not valid: ${JSON.stringify(fault)}`);
  return text;
};

const systemComponentOf = (
  entry: SystemPackage,
  licenses: Factories.LicenseFactory,
): Models.Component =>
  new Models.Component(ComponentType.Library, entry.name, {
    bomRef: entry.purl,
    version: entry.version,
    purl: entry.purl,
    hashes: new Models.HashDictionary(
      entry.sha256 === undefined ? [] : [[HashAlgorithm["SHA-256"], entry.sha256]],
    ),
    licenses: new Models.LicenseRepository([licenses.makeFromString(entry.license)]),
  });

const componentOf = (
  entry: ShippedPackage,
  licenses: Factories.LicenseFactory,
): Models.Component => {
  const [scope, name] = entry.name.startsWith("@")
    ? entry.name.split("/")
    : [undefined, entry.name];
  // A purl encodes the @ of a scope.
  const purl = `pkg:npm/${scope === undefined ? "" : `${encodeURIComponent(scope)}/`}${name}@${entry.version}`;
  const digest = Buffer.from(entry.integrity.slice("sha512-".length), "base64").toString("hex");
  const license = licenseOf(entry);
  const component = new Models.Component(ComponentType.Library, name ?? entry.name, {
    bomRef: purl,
    version: entry.version,
    purl,
    ...(scope === undefined ? {} : { group: scope }),
    hashes: new Models.HashDictionary([[HashAlgorithm["SHA-512"], digest]]),
    licenses: new Models.LicenseRepository(
      license === null ? [] : [licenses.makeFromString(license)],
    ),
  });
  if (entry.homepage !== null)
    component.externalReferences.add(
      new Models.ExternalReference(entry.homepage, ExternalReferenceType.Website),
    );
  return component;
};
