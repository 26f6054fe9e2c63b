import type { FormInstance } from "antd";
import { useState } from "react";
import { ApiError } from "@/api/errors";
import { errorText, reasonText } from "@/api/dictionaries";

/**
 * Sends a form: errors of the server stand beside their fields, others in `fault` above the button, and the form keeps
 * its values. `names` maps a field of the API to a field of the form where they differ; `codes` ties an error code to
 * a field.
 */
export function useSubmit<Values extends object>(
  form: FormInstance<Values>,
  send: (values: Values) => Promise<void>,
  { names = {}, codes = {} }: { names?: Record<string, string>; codes?: Record<string, string> } = {},
): { submit: (values: Values) => Promise<void>; fault: unknown; isSending: boolean } {
  const [fault, setFault] = useState<unknown>(null);
  const [isSending, setSending] = useState(false);
  const submit = async (values: Values) => {
    setFault(null);
    setSending(true);
    try {
      await send(values);
    } catch (error) {
      const placed = place(form, error, names, codes);
      if (!placed) setFault(error);
    } finally {
      setSending(false);
    }
  };
  return { submit, fault, isSending };
}

/** At least one box is ticked. The rule `required` would give the group an attribute that only fields may have. */
export const oneOf = (message: string) => ({ validator: (_: unknown, value: unknown) => (Array.isArray(value) && value.length ? Promise.resolve() : Promise.reject(new Error(message))) });

function place<Values extends object>(form: FormInstance<Values>, error: unknown, names: Record<string, string>, codes: Record<string, string>): boolean {
  if (!(error instanceof ApiError)) return false;
  const known = new Set(Object.keys(form.getFieldsValue(true) as object).concat(Object.keys(form.getFieldsValue() as object)));
  const found = error.fields.map((one) => ({ name: names[one.field] ?? one.field, errors: [reasonText(one.reason)] })).filter((one) => known.has(one.name));
  const coded = codes[error.code];
  if (coded) found.push({ name: coded, errors: [errorText(error)] });
  if (!found.length) return false;
  form.setFields(found as unknown as Parameters<typeof form.setFields>[0]);
  form.getFieldInstance(found[0]!.name as never)?.focus?.();
  return true;
}
