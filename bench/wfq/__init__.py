"""How fast is the fair queue, and against whom?"""
