import { scimBasePath, scimUrn } from "./resources.ts";

interface AttributeOptions {
  type?: "string" | "boolean" | "complex" | "reference";
  multiValued?: boolean;
  description: string;
  required?: boolean;
  caseExact?: boolean;
  mutability?: "readWrite" | "readOnly" | "immutable";
  uniqueness?: "none" | "server";
  subAttributes?: readonly object[];
  canonicalValues?: readonly string[];
  referenceTypes?: readonly string[];
}

/** An attribute of a schema (RFC 7643, 7). */
const attribute = (name: string, options: AttributeOptions) => ({
  name,
  type: "string",
  multiValued: false,
  required: false,
  caseExact: false,
  mutability: "readWrite",
  returned: "default",
  uniqueness: "none",
  ...options,
});

const schemaOf = (
  id: string,
  name: string,
  description: string,
  attributes: readonly object[],
) => ({
  schemas: [scimUrn.schema],
  id,
  name,
  description,
  attributes,
  meta: { resourceType: "Schema", location: `${scimBasePath}/Schemas/${id}` },
});

/** The schemas that core stores (RFC 7643, 7). It accepts and ignores other attributes. */
export const scimSchemas = [
  schemaOf(scimUrn.user, "User", "A person", [
    attribute("userName", {
      description: "The name that the person signs in with",
      required: true,
      uniqueness: "server",
    }),
    attribute("name", {
      description: "The parts of the name",
      type: "complex",
      subAttributes: [
        attribute("formatted", { description: "The full name" }),
        attribute("givenName", { description: "The given name" }),
        attribute("familyName", { description: "The family name" }),
      ],
    }),
    attribute("displayName", { description: "The name that the audit log and pages show" }),
    attribute("active", { description: "Whether the person may sign in", type: "boolean" }),
    attribute("emails", {
      description: "Addresses; the primary one decides whether the person is in the domain",
      type: "complex",
      multiValued: true,
      subAttributes: [
        attribute("value", { description: "The address", required: true }),
        attribute("type", {
          description: "The kind of the address",
          canonicalValues: ["work", "home", "other"],
        }),
        attribute("primary", { description: "Whether it is the main address", type: "boolean" }),
      ],
    }),
  ]),
  schemaOf(scimUrn.group, "Group", "A group; svc-admin and svc-auditor grant scopes", [
    attribute("displayName", {
      description: "The name of the group",
      required: true,
      uniqueness: "server",
    }),
    attribute("members", {
      description: "The users in the group",
      type: "complex",
      multiValued: true,
      subAttributes: [
        attribute("value", {
          description: "The id of a user",
          mutability: "immutable",
          required: true,
          caseExact: true,
        }),
        attribute("display", { description: "The user's userName", mutability: "readOnly" }),
        attribute("type", {
          description: "Always User",
          mutability: "immutable",
          canonicalValues: ["User"],
        }),
        attribute("$ref", {
          description: "The address of the user",
          type: "reference",
          referenceTypes: ["User"],
          mutability: "readOnly",
          caseExact: true,
        }),
      ],
    }),
  ]),
];

const resourceTypeOf = (name: "User" | "Group", schema: string, description: string) => ({
  schemas: [scimUrn.resourceType],
  id: name,
  name,
  endpoint: `/${name}s`,
  description,
  schema,
  meta: { resourceType: "ResourceType", location: `${scimBasePath}/ResourceTypes/${name}` },
});

/** The types of resources (RFC 7643, 6). */
export const scimResourceTypes = [
  resourceTypeOf("User", scimUrn.user, "A person"),
  resourceTypeOf("Group", scimUrn.group, "A group"),
];

/** What core supports (RFC 7643, 5). */
export const scimServiceProviderConfig = ({
  countMax,
  bodyBytesMax,
}: {
  countMax: number;
  bodyBytesMax: number;
}) => ({
  schemas: [scimUrn.serviceProviderConfig],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: bodyBytesMax },
  filter: { supported: true, maxResults: countMax },
  changePassword: { supported: false },
  sort: { supported: false },
  etag: { supported: false },
  authenticationSchemes: [
    {
      type: "oauthbearertoken",
      name: "OAuth Bearer Token",
      description: "The token of SVC_DIRECTORY_SCIM_TOKEN",
      specUri: "https://www.rfc-editor.org/info/rfc6750",
      primary: true,
    },
  ],
  meta: {
    resourceType: "ServiceProviderConfig",
    location: `${scimBasePath}/ServiceProviderConfig`,
  },
});
