import { replaceSecrets, type SecretForm } from "#collector/processors/secrets.ts";
import { toBase64url } from "#proto/values.ts";

/*
 * Lines with secrets of each form, and lines that only look like that. All of them are made here, at random, so that scanners of secrets find
 * none in this repository.
 */

/** Returns unsigned 32-bit integers. */
type Random = () => number;

const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const letters = `${upper}${upper.toLowerCase()}`;
const decimal = "0123456789";
const base32 = `${upper}234567`;
const hexadecimal = `${decimal}abcdef`;

const createChoices = (random: Random) => {
  const below = (end: number) => random() % end;
  const between = (min: number, max: number) => min + below(max - min + 1);
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  const text = (alphabet: string, length: number) =>
    Array.from({ length }, () => alphabet[below(alphabet.length)]).join("");
  return { between, pick, text };
};
type Choices = ReturnType<typeof createChoices>;

const luhnDigit = (digits: string): string => {
  for (const digit of decimal) if (isLuhn(digits + digit)) return digit;
  return "";
};
const isLuhn = (digits: string): boolean =>
  [...digits].toReversed().reduce((sum, digit, index) => {
    const doubled = Number(digit) * (1 + (index % 2));
    return sum + (doubled > 9 ? doubled - 9 : doubled);
  }, 0) %
    10 ===
  0;

const issuers: readonly (readonly [prefix: string, length: number])[] = [
  ["4", 13],
  ["4", 16],
  ["4", 19],
  ["51", 16],
  ["55", 16],
  ["2221", 16],
  ["2720", 16],
  ["34", 15],
  ["37", 15],
  ["36", 14],
  ["305", 14],
  ["6011", 16],
  ["65", 16],
  ["3530", 16],
  ["62", 16],
  ["2204", 16],
  ["6759", 18],
];

const groupsOf: Readonly<Record<number, readonly number[]>> = {
  14: [4, 6, 4],
  15: [4, 6, 5],
  16: [4, 4, 4, 4],
  19: [4, 4, 4, 4, 3],
};

const inGroups = (digits: string, separator: string): string => {
  let at = 0;
  const groups = groupsOf[digits.length] ?? [digits.length];
  const parts = groups.map((length) => {
    at += length;
    return digits.slice(at - length, at);
  });
  return parts.join(separator);
};

const cardOf = ({ pick, text }: Choices): string => {
  const [prefix, length] = pick(issuers);
  const digits = prefix + text(decimal, length - prefix.length - 1);
  return inGroups(digits + luhnDigit(digits), pick(["", "", " ", "-"]));
};

const jwtOf = ({ pick, text, between }: Choices): string => {
  const encode = (value: object) => toBase64url(new TextEncoder().encode(JSON.stringify(value)));
  const header = { alg: pick(["RS256", "ES256", "HS256", "EdDSA"]), kid: text(letters, 8) };
  const signature = toBase64url(new TextEncoder().encode(text(letters, between(32, 64))));
  return [encode(header), encode({ sub: text(letters, 9), exp: 1 }), signature].join(".");
};

const awsIdOf = ({ pick, text }: Choices): string =>
  ["A", pick(["KIA", "SIA"]), text(base32, 16)].join("");
const awsSecretOf = ({ text }: Choices): string =>
  `${text(`${letters}${decimal}+/`, 39)}${text(letters, 1)}`;

/** A secret, and what stands around it. */
type Planted = readonly [before: string, secret: string, after: string];

const anywhere = (choices: Choices, secret: string): Planted => {
  const [before, after] = choices.pick([
    ["", ""],
    ["2026-11-30T07:00:00Z INFO paid with ", " by user 17"],
    ["2026-11-30 07:00:00 ", " 12/29"],
    ['{"level":"info","msg":"got ', '","n":1}'],
    ['{"msg":"first line\\n', '\\nsecond"}'],
    ['{"html":"\\u003cb\\u003e', '\\u003c/b\\u003e"}'],
    ["value=", ","],
    ["('", "')"],
    ["\t", "."],
  ] as const);
  return [before, secret, after];
};

const planted: Readonly<Record<SecretForm, (choices: Choices) => Planted>> = {
  card: (choices) => anywhere(choices, cardOf(choices)),
  email: (choices) => {
    const { text, pick, between } = choices;
    const name = text(letters, between(1, 12)).toLowerCase();
    const local = pick([name, `${name}.${text(letters, 5)}`, `${name}+${text(decimal, 3)}`]);
    const at = pick(["example.com", "mail.example.org", "a-b.co.uk", "x.museum", "xn--e1a.net"]);
    return anywhere(choices, `${local}@${at}`);
  },
  bearer_token: ({ pick, text, between }) => {
    const token = pick([
      `${text(letters, 6)}${text(decimal, 3)}`,
      text(`${letters}${decimal}-._~`, between(24, 80)) + text(decimal, 1),
      `${text(`${letters}${decimal}+/`, 42)}1=`,
    ]);
    const [before, after] = pick([
      ["Authorization: Bearer ", ""],
      ["> authorization: bearer ", " accepted"],
      ['{"headers":{"authorization":"Bearer ', '"}}'],
      ["curl -H 'Authorization: Bearer ", "' https://example.com"],
      ['{"msg":"\\tBearer ', '\\n"}'],
      ["?header=Bearer%20", "&x=1"],
    ] as const);
    return [before, token, after];
  },
  aws_key: (choices) => {
    const [before, after] = choices.pick([
      ["aws_secret_access_key = ", ""],
      ['{"SecretAccessKey": "', '"}'],
      ["AWS_SECRET_ACCESS_KEY=", " AWS_REGION=eu-west-1"],
      ["secretAccessKey: '", "'"],
    ] as const);
    return choices.pick([
      anywhere(choices, awsIdOf(choices)),
      [before, awsSecretOf(choices), after],
      [`${awsIdOf(choices)},`, awsSecretOf(choices), ""],
    ] as const);
  },
  jwt: (choices) => anywhere(choices, jwtOf(choices)),
  url_password: ({ pick, text, between }) => {
    const password = text(`${letters}${decimal}!$*-._~%:`, between(1, 30));
    const [before, after] = pick([
      ["postgres://app:", "@db.example.com:5432/app"],
      ["redis://:", "@cache:6379"],
      ['{"url":"https:\\/\\/bot:', '@example.com\\/x"}'],
      ["cloning https://ci:", "@git.example.com/a.git"],
      ["DSN='mysql://root:", "@10.0.0.1/db'"],
    ] as const);
    return [before, password, after];
  },
};

const wrongLuhn = (digits: string): string =>
  digits.slice(0, -1) + ((Number(digits.at(-1)) + 5) % 10);

const alike: Readonly<Record<SecretForm, (choices: Choices) => string>> = {
  card: (choices) => {
    const { text, pick, between } = choices;
    const id = (length: number) => text(hexadecimal, length);
    const other = pick(["0", "1", "7", "9"]) + text(decimal, 14);
    return pick([
      wrongLuhn(cardOf(choices)),
      other + luhnDigit(other),
      `${between(1_600_000_000, 1_900_000_000)}${text(decimal, pick([3, 6, 9]))}`,
      [8, 4, 4, 4, 12].map(id).join("-"),
      id(32),
      `0.4${text(decimal, 15)}`,
      `+49 170 ${text(decimal, 4)} ${text(decimal, 4)}`,
      text(decimal, between(20, 40)),
      `2026-11-30 07:00:00,123 [${text(decimal, 5)}] ${text(decimal, 12)}`,
      `10.0.0.1:443 -> 10.0.0.2:${text(decimal, 5)} ${text(decimal, 10)}`,
    ]);
  },
  email: ({ text, pick }) => {
    const name = text(letters, 6);
    return pick([
      `${name}@localhost started`,
      `Started getty@${name}.service - Getty`,
      `Reached user@${text(decimal, 4)}.slice`,
      `@${name} override`,
      `npm i ${name}@${text(decimal, 1)}.2.3`,
      `${name}@2x.png 200`,
      `${name}@sha256:${text(hexadecimal, 64)}`,
      `root@10.0.0.${text(decimal, 1)}: denied`,
      `5 @ ${name}.com`,
      `SELECT @@${name}.x`,
    ]);
  },
  bearer_token: ({ text, pick }) =>
    pick([
      `the bearer of ${text(letters, 5)}`,
      "Bearer authentication failed",
      `token_type=bearer expires=${text(decimal, 4)}`,
      'WWW-Authenticate: Bearer realm="example", error="invalid_token"',
      `forbearers ${text(decimal, 9)}`,
      `bearer: none, id ${text(decimal, 12)}`,
      `Bearer ${text(letters, 7)}`,
    ]),
  aws_key: (choices) => {
    const { text, pick } = choices;
    return pick([
      awsIdOf(choices).slice(0, -1),
      `${awsIdOf(choices)}${text(base32, 1)}`,
      awsIdOf(choices).toLowerCase(),
      `${awsIdOf(choices).slice(0, 12)}01890189`,
      `commit ${text(hexadecimal, 40)}`,
      `etag="${awsSecretOf(choices)}"`,
      `secret_key=${text(letters, 12)}`,
      `secret access key of ${text(letters, 20)}`,
    ]);
  },
  jwt: (choices) => {
    const { text, pick } = choices;
    const base64url = `${letters}${decimal}-_`;
    return pick([
      `eyJ${text(base64url, 30)}.${text(base64url, 40)}.${text(base64url, 43)}`,
      jwtOf(choices).split(".").slice(0, 2).join("."),
      `${jwtOf(choices).split(".")[0]}`,
      `com.example.${text(letters, 9)}`,
      `${toBase64url(new TextEncoder().encode('{"id":1}'))}.${text(base64url, 9)}.x`,
    ]);
  },
  url_password: ({ text, pick }) => {
    const name = text(letters, 7).toLowerCase();
    return pick([
      `GET http://${name}:8080/path@${name} 200`,
      `ssh://git@${name}.example.com:22/x`,
      `https://${name}.example.com/a:b@c`,
      `https://${name}.example.com?x=a:b@c`,
      `listening on http://[::1]:80/`,
      `from ${name}:22 to b@c`,
      `mailto:${name}:b@c`,
      `http://${name}:80 bob@example`,
    ]);
  },
};

/** What a search of so many lines found of the secrets in them, and of what only looks like one. */
interface SearchResult {
  form: SecretForm;
  found: number;
  /** Lines in which more or less than the secret was replaced. */
  missed: string[];
  wrong: string[];
}

const mark = "[redacted]";

/** Searches so many lines with a secret of a form, and as many that only look like that. */
export const searchSecrets = (form: SecretForm, lines: number, random: Random): SearchResult => {
  const choices = createChoices(random);
  const result: SearchResult = { form, found: 0, missed: [], wrong: [] };
  for (let line = 0; line < lines; line++) {
    const [before, secret, after] = planted[form](choices);
    const hidden = replaceSecrets(before + secret + after, form, mark);
    // The id of an AWS key before its secret is one, too.
    const expected = replaceSecrets(before, form, mark) + mark + after;
    if (hidden === expected) result.found += 1;
    else result.missed.push(before + secret + after);
    const text = alike[form](choices);
    if (replaceSecrets(text, form, mark) !== text) result.wrong.push(text);
  }
  return result;
};
