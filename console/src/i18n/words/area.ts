export type Area = Readonly<Record<string, readonly [en: string, zh: string]>>;
